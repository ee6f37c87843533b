//! Answers before the end of a body: the next request is never parsed out of it, and the client can
//! always read the answer.

use crate::support::{Answer, Client, Gate, Gateway, Upstream, get, post};

const TABLES: &str = r#"
[policy]
max_request_body = "1KiB"
request_body_timeout = "150ms"

[[route]]
match = "POST /scoped"
on_missing_scope = "reject"
"#;

/// What every body here is made of.
const FAKE: &str =
    "POST /smuggled HTTP/1.1\r\nHost: a\r\nIdempotency-Key: s\r\nContent-Length: 0\r\n\r\n";

/// Why a request is answered early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    KeyMissing,
    KeyInvalid,
    KeyTwice,
    ScopeMissing,
    Replay,
    Mismatch,
    InFlight,
    TooBusy,
    HostMissing,
    HostTwice,
    Connect,
}

/// How much of its body comes, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Whole,
    Unsent,
    Half,
    Oversized,
    Chunked,
    ChunkedHalf,
    ChunkedOversized,
    /// Waits for permission, and gets none.
    ExpectUnsent,
    /// Asks for permission, but does not wait for it.
    ExpectSent,
}

const REASONS: [Why; 11] = [
    Why::KeyMissing,
    Why::KeyInvalid,
    Why::KeyTwice,
    Why::ScopeMissing,
    Why::Replay,
    Why::Mismatch,
    Why::InFlight,
    Why::TooBusy,
    Why::HostMissing,
    Why::HostTwice,
    Why::Connect,
];

const FORMS: [Form; 9] = [
    Form::Whole,
    Form::Unsent,
    Form::Half,
    Form::Oversized,
    Form::Chunked,
    Form::ChunkedHalf,
    Form::ChunkedOversized,
    Form::ExpectUnsent,
    Form::ExpectSent,
];

#[test]
fn no_early_answer_lets_a_body_become_a_request() {
    let gate = Gate::default();
    let upstream = held_upstream(&gate);
    let gateway = Gateway::start(&upstream, TABLES);
    assert_eq!(gateway.ask(post("/replay", "r", &body(Form::Whole))).status, 200);
    assert_eq!(gateway.ask(post("/mismatch", "m", "another")).status, 200);
    // Beside it one that has room for a single execution.
    let tables = format!("[limits]\nmax_executions = 1\n{TABLES}");
    let busy = Gateway::start(&upstream, &tables);
    let mut holders = [gateway.connect(), busy.connect()];
    for holder in &mut holders {
        holder.send(post("/held", "h", &body(Form::Whole)));
    }
    upstream.wait_for("/held", 2);
    let answered = run(&gateway, |why| why != Why::TooBusy) + run(&busy, |why| why == Why::TooBusy);
    gate.open();
    for holder in &mut holders {
        assert_eq!(holder.reply().status, 200);
    }
    gateway.kill();
    busy.kill();
    let seen = upstream.finished();
    let after = |seen: &&crate::support::Seen| seen.target.starts_with("/after");
    assert_eq!(seen.iter().filter(after).count(), answered);
    let others = seen.iter().filter(|seen| !seen.target.starts_with("/after"));
    let mut others: Vec<_> = others.map(|seen| seen.target.as_str()).collect();
    others.sort_unstable();
    assert_eq!(others, ["/held", "/held", "/mismatch", "/replay"]);
    assert!(answered >= 20, "{answered} connections went on");
}

/// Runs all forms of some reasons; returns how many requests that followed were answered.
fn run(gateway: &Gateway, reasons: impl Fn(Why) -> bool) -> usize {
    let reasons = REASONS.into_iter().filter(|why| reasons(*why));
    let cases = reasons.flat_map(|why| FORMS.map(|form| (why, form)));
    std::thread::scope(|scope| {
        let runs: Vec<_> =
            cases.map(|(why, form)| scope.spawn(move || case(gateway, why, form))).collect();
        runs.into_iter().map(|run| usize::from(run.join().unwrap())).sum()
    })
}

/// One case; says whether the request that followed was answered.
fn case(gateway: &Gateway, why: Why, form: Form) -> bool {
    let context = format!("{why:?} {form:?}");
    let mut client = gateway.connect();
    let framed = framed(form);
    let sent = match form {
        Form::Unsent | Form::ExpectUnsent => 0,
        Form::Half | Form::ChunkedHalf => FAKE.len() + 5,
        _ => framed.len(),
    };
    client.send(head(why, form)).send(&framed[..sent]);
    let after = format!("/after-{why:?}-{form:?}");
    if sent == framed.len() {
        // The connection may have been closed already.
        let _ = client.try_send(get(&after));
    }
    let reply = client.final_reply(false).unwrap();
    let reply = reply.unwrap_or_else(|| panic!("{context}: no answer"));
    assert!(why.statuses(form).contains(&reply.status), "{context}: {reply:?}");
    if sent < framed.len() {
        assert!(reply.closes(), "{context}: {reply:?}");
        let _ = client.try_send(&framed[sent..]).and_then(|()| client.try_send(get(&after)));
    }
    went_on(&mut client, &reply, &after)
}

/// Either the connection ends after `reply`, or the next request gets its own answer.
fn went_on(client: &mut Client, reply: &Answer, after: &str) -> bool {
    if reply.closes() {
        client.assert_cut();
        return false;
    }
    let next = client.reply();
    assert_eq!((next.status, next.text()), (200, format!("GET {after} 0")), "after {reply:?}");
    true
}

/// hyper takes what follows a bare LF for more of the trailers: the hidden request, but not its body.
#[test]
fn an_answer_that_begins_before_the_trailers_is_the_last() {
    let upstream = Upstream::hasty();
    let gateway = Gateway::start(&upstream, TABLES);
    let len = FAKE.len();
    let hidden = format!("PUT /hidden HTTP/1.1\r\nHost: a\r\nContent-Length: {len}\r\n\r\n");
    for end in ["0\r\nX: 1\n\n", "0\r\nX: 1\r\n\r\n", "0\r\n\r\n"] {
        let mut client = gateway.connect();
        client.send("PUT /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n");
        let head = client.head();
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(head.contains("\r\nconnection: close\r\n"), "{head}");
        client.send(format!("{end}{hidden}{FAKE}"));
        assert_eq!(client.line().exactly(2).unwrap(), b"ok");
        client.assert_cut();
    }
    gateway.kill();
    let targets: Vec<_> = upstream.finished().into_iter().map(|seen| seen.target).collect();
    assert_eq!(targets, ["/a"; 3]);
}

#[test]
fn the_answer_can_be_read_by_a_client_that_sends_all_of_a_large_body_first() {
    const LEN: usize = 24 << 20;
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&upstream, TABLES);
    let piece = vec![b'x'; 1 << 20];
    for why in [Why::KeyMissing, Why::ScopeMissing, Why::Mismatch, Why::HostTwice] {
        for form in [Form::Oversized, Form::ChunkedOversized] {
            let mut client = gateway.connect();
            let start = head(why, Form::Chunked).replace("Transfer-Encoding: chunked\r\n\r\n", "");
            let framing = match form {
                Form::Oversized => format!("Content-Length: {LEN}\r\n\r\n"),
                _ => format!("Transfer-Encoding: chunked\r\n\r\n{LEN:x}\r\n"),
            };
            client.send(format!("{start}{framing}"));
            for _ in 0..LEN / piece.len() {
                client.send(&piece);
            }
            let reply = client.reply();
            assert!(reply.status >= 400 && reply.closes(), "{why:?} {form:?}: {reply:?}");
            client.assert_cut();
        }
    }
    gateway.kill();
    assert!(upstream.finished().is_empty());
}

fn held_upstream(gate: &Gate) -> Upstream {
    let gate = gate.clone();
    Upstream::new(move |seen, line| {
        if seen.target == "/held" {
            gate.pass();
        }
        seen.echo(line)
    })
}

fn body(form: Form) -> String {
    let oversized = [Form::Oversized, Form::ChunkedOversized].contains(&form);
    FAKE.repeat(if oversized { 40 } else { 4 })
}

/// The body as it goes over the wire.
fn framed(form: Form) -> String {
    let body = body(form);
    match form {
        Form::Chunked | Form::ChunkedHalf | Form::ChunkedOversized => {
            format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
        }
        _ => body,
    }
}

/// The request's head, its framing last.
fn head(why: Why, form: Form) -> String {
    let framing = match form {
        Form::Chunked | Form::ChunkedHalf | Form::ChunkedOversized => {
            "Transfer-Encoding: chunked\r\n".to_owned()
        }
        _ => format!("Content-Length: {}\r\n", body(form).len()),
    };
    let expect = match form {
        Form::ExpectUnsent | Form::ExpectSent => "Expect: 100-continue\r\n",
        _ => "",
    };
    let (line, fields) = match why {
        Why::KeyMissing => ("POST /a", "Host: a\r\n"),
        Why::KeyInvalid => ("POST /a", "Host: a\r\nIdempotency-Key: a b\r\n"),
        Why::KeyTwice => ("PUT /a", "Host: a\r\nIdempotency-Key: a\r\nIdempotency-Key: b\r\n"),
        Why::ScopeMissing => ("POST /scoped", "Host: a\r\nIdempotency-Key: a\r\n"),
        Why::Replay => ("POST /replay", "Host: a\r\nIdempotency-Key: r\r\n"),
        Why::Mismatch => ("POST /mismatch", "Host: a\r\nIdempotency-Key: m\r\n"),
        Why::InFlight => ("POST /held", "Host: a\r\nIdempotency-Key: h\r\n"),
        Why::TooBusy => ("POST /busy", "Host: a\r\nIdempotency-Key: b\r\n"),
        Why::HostMissing => ("POST /a", "Idempotency-Key: a\r\n"),
        Why::HostTwice => ("POST /a", "Host: a\r\nHost: a\r\nIdempotency-Key: a\r\n"),
        Why::Connect => ("CONNECT a:80", "Host: a\r\n"),
    };
    format!("{line} HTTP/1.1\r\n{fields}{expect}{framing}\r\n")
}

// === impl Why ===

impl Why {
    /// What the answer may be.
    fn statuses(self, form: Form) -> &'static [u16] {
        let by_itself: &[u16] = match self {
            Self::ScopeMissing => &[401],
            Self::Replay => &[200],
            Self::Mismatch | Self::InFlight => &[409],
            Self::TooBusy => &[503],
            _ => &[400],
        };
        let knows_without_body = by_itself == [400] || by_itself == [401];
        match form {
            _ if knows_without_body => by_itself,
            Form::Oversized | Form::ChunkedOversized => &[413],
            Form::Unsent | Form::Half | Form::ChunkedHalf | Form::ExpectUnsent => &[408],
            Form::Whole | Form::Chunked | Form::ExpectSent => by_itself,
        }
    }
}
