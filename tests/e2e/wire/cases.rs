//! Malformed and ambiguous requests: what `cases.txt` says of each must hold, and no byte of one
//! request may ever become another.

use std::collections::BTreeMap;
use std::io;

use crate::support::{Answer, Client, Gateway, Upstream};

const TABLE: &str = include_str!("cases.txt");
const SMUGGLED: &[u8] = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
const PUT: &[u8] = b"PUT /case HTTP/1.1\r\nHost: a\r\n";

/// One line of the table.
struct Case {
    name: &'static str,
    must: Must,
    bytes: Vec<u8>,
    /// True if it also runs with a key.
    takes_key: bool,
}

/// Targets and bodies.
type Requests = Vec<(Vec<u8>, Vec<u8>)>;

enum Must {
    Pass { requests: Requests, ends: bool },
    Refuse(u16),
    Break,
}

/// How the bytes are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Whole,
    ByteByByte,
}

/// One case, sent in one way.
struct Run<'a> {
    case: &'a Case,
    number: usize,
    with_key: bool,
    sent: Sent,
}

fn table() -> Vec<Case> {
    let lines = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(Case::parse).collect()
}

#[test]
fn there_are_many_cases_and_no_two_have_the_same_name() {
    let names: std::collections::BTreeSet<_> = table().iter().map(|case| case.name).collect();
    assert_eq!(names.len(), table().len());
    assert!(names.len() >= 120, "{}", names.len());
}

#[test]
fn each_case_is_answered_as_it_must_be_and_nothing_is_smuggled() {
    run_all(Sent::Whole);
}

#[test]
fn it_makes_no_difference_if_each_byte_comes_alone() {
    run_all(Sent::ByteByByte);
}

fn run_all(sent: Sent) {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&upstream, "");
    let mut expected: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    let table = table();
    let keyed = table.iter().filter(|case| case.takes_key).map(|case| (case, true));
    let runs = table.iter().map(|case| (case, false)).chain(keyed);
    let short = runs.filter(|(case, _)| sent == Sent::Whole || case.bytes.len() < 1_000);
    for (number, (case, with_key)) in short.enumerate() {
        let run = Run { case, number, with_key, sent };
        if let Err(what) = run.check(&gateway) {
            wrong.push(format!("{} (key: {with_key}): {what}", case.name));
        }
        for request in run.expected() {
            *expected.entry(request).or_default() += 1;
        }
    }
    // Once the gateway is gone nothing more can come.
    gateway.kill();
    for seen in upstream.finished() {
        let request = (seen.target.clone(), latin1(&seen.body));
        match expected.get_mut(&request) {
            Some(left) if *left > 0 => *left -= 1,
            _ => wrong.push(format!("the upstream saw {request:?}, which no client sent")),
        }
    }
    let unseen = expected.iter().filter(|(_, left)| **left > 0);
    wrong.extend(unseen.map(|(request, _)| format!("the upstream never saw {request:?}")));
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

// === impl Case ===

impl Case {
    fn parse(line: &'static str) -> Self {
        let mut columns = line.splitn(3, " | ");
        let mut column = || columns.next().unwrap_or_else(|| panic!("not a case: {line}"));
        let (name, must, text) = (column(), column(), column());
        Self {
            name,
            must: Must::parse(must),
            bytes: expand(text.as_bytes()),
            takes_key: text.starts_with("{P}"),
        }
    }
}

// === impl Must ===

impl Must {
    fn parse(text: &str) -> Self {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let requests = || {
            let pairs = rest.split(' ').map(|pair| pair.rsplit_once('=').unwrap());
            pairs
                .map(|(target, body)| (expand(target.as_bytes()), expand(body.as_bytes())))
                .collect()
        };
        match word {
            "pass" => Self::Pass { requests: requests(), ends: false },
            "pass-close" => Self::Pass { requests: requests(), ends: true },
            "refuse" => Self::Refuse(rest.parse().unwrap()),
            "broken" => Self::Break,
            _ => panic!("no such word: {word}"),
        }
    }
}

// === impl Run ===

impl Run<'_> {
    fn numbered(&self, bytes: &[u8]) -> Vec<u8> {
        replaced(bytes, b"/case", format!("/case{}", self.number).as_bytes())
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.case.bytes.clone();
        if self.with_key {
            let key = format!("Idempotency-Key: k{}\r\n", self.number).into_bytes();
            bytes.splice(PUT.len()..PUT.len(), key);
        }
        self.numbered(&bytes)
    }

    fn after(&self) -> String {
        format!("/after{}", self.number)
    }

    /// Targets and bodies that the upstream must see, the request after the case included.
    fn expected(&self) -> Vec<(String, String)> {
        let Must::Pass { requests, ends } = &self.case.must else { return Vec::new() };
        let numbered =
            |(target, body): &(Vec<u8>, Vec<u8>)| (latin1(&self.numbered(target)), latin1(body));
        let mut expected: Vec<_> = requests.iter().map(numbered).collect();
        if !ends {
            expected.push((self.after(), String::new()));
        }
        expected
    }

    fn check(&self, gateway: &Gateway) -> Result<(), String> {
        let mut client = gateway.connect();
        let after = format!("GET {} HTTP/1.1\r\nHost: a\r\n\r\n", self.after());
        let bytes = [self.bytes(), after.into_bytes()].concat();
        let piece = if self.sent == Sent::Whole { bytes.len() } else { 1 };
        // It may be refused before its end.
        let _ = bytes.chunks(piece).try_for_each(|piece| client.try_send(piece));
        match &self.case.must {
            Must::Pass { ends, .. } => self.passes(&mut client, *ends),
            Must::Refuse(status) => match next(&mut client, false)? {
                Some(reply) if reply.status == *status => ended(&mut client),
                other => Err(format!("expected {status}, got {}", shown(other.as_ref()))),
            },
            Must::Break => match next(&mut client, false)? {
                Some(reply) if reply.status < 400 => Err(shown(Some(&reply))),
                Some(_) => ended(&mut client),
                None => Ok(()),
            },
        }
    }

    fn passes(&self, client: &mut Client, ends: bool) -> Result<(), String> {
        let is_head = self.case.bytes.starts_with(b"HEAD ");
        for (target, body) in self.expected() {
            let Some(reply) = next(client, is_head && target != self.after())? else {
                return Err(format!("no answer for {target}"));
            };
            let own = format!("{target} {}", body.chars().count());
            let is_own = reply.text().ends_with(&own) || reply.body.is_empty() && is_head;
            if reply.status != 200 || !is_own {
                return Err(format!("expected {own:?}, got {}", shown(Some(&reply))));
            }
        }
        if !ends {
            return Ok(());
        }
        match next(client, false)? {
            Some(reply) if reply.status < 400 => Err(format!("went on: {}", shown(Some(&reply)))),
            Some(_) => ended(client),
            None => Ok(()),
        }
    }
}

fn next(client: &mut Client, to_head: bool) -> Result<Option<Answer>, String> {
    client.final_reply(to_head).map_err(|error| format!("no good answer: {error}"))
}

fn ended(client: &mut Client) -> Result<(), String> {
    match client.line().has_ended() {
        Ok(true) => Ok(()),
        Ok(false) => Err("the connection goes on after the answer".to_owned()),
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(()),
        Err(error) => Err(format!("the connection does not end: {error}")),
    }
}

fn shown(reply: Option<&Answer>) -> String {
    reply.map_or_else(
        || "no answer".to_owned(),
        |reply| format!("{} {:?}", reply.status, reply.text()),
    )
}

/// Each byte as one character, so that no two texts of bytes look alike.
fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), bytes);
    while let Some(first) = rest.first() {
        if let Some(after) = rest.strip_prefix(from) {
            out.extend_from_slice(to);
            rest = after;
        } else {
            out.push(*first);
            rest = &rest[1..];
        }
    }
    out
}

/// Reads the notation of the table.
fn expand(mut text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let [first, rest @ ..] = text {
        let (bytes, used) = match (first, rest) {
            (b'\\', [b'x', high, low, ..]) => {
                let digits = [*high, *low];
                let digits = std::str::from_utf8(&digits).unwrap();
                (vec![u8::from_str_radix(digits, 16).unwrap()], 4)
            }
            (b'\\', [letter, ..]) => (vec![escaped(*letter)], 2),
            (b'{', [b'P', b'}', ..]) => (PUT.to_vec(), 3),
            (b'{', [b'S', b'}', ..]) => (SMUGGLED.to_vec(), 3),
            (b'{', [what, b'*', ..]) => {
                let end = text.iter().position(|byte| *byte == b'}').unwrap();
                let times = std::str::from_utf8(&text[3..end]).unwrap().parse().unwrap();
                (repeated(*what, times), end + 1)
            }
            _ => (vec![*first], 1),
        };
        out.extend(bytes);
        text = &text[used..];
    }
    out
}

fn escaped(letter: u8) -> u8 {
    match letter {
        b'r' => b'\r',
        b'n' => b'\n',
        b't' => b'\t',
        b'0' => 0,
        b'\\' => b'\\',
        _ => panic!("no such escape: {}", char::from(letter)),
    }
}

fn repeated(what: u8, times: usize) -> Vec<u8> {
    match what {
        b'F' => (0..times).flat_map(|n| format!("X-{n}: {n}\r\n").into_bytes()).collect(),
        byte => vec![byte; times],
    }
}
