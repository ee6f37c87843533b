//! Naive readers of bodies, in the ways of servers. Bodies that one of them reads differently are two
//! requests; so they must not have one fingerprint.

use std::collections::BTreeMap;

/// What all of them read in a urlencoded form.
pub(crate) fn form_readings(body: &[u8]) -> Vec<String> {
    let mut readings = Vec::new();
    for separators in [b"&".as_slice(), b"&;"] {
        let fields = fields(body, separators);
        readings.push(format!("{:?}", by_name(&fields, <[u8]>::to_vec)));
        readings.push(format!("{:?}", by_name(&fields, <[u8]>::to_ascii_lowercase)));
        for joins_elements in [false, true] {
            readings.push(format!("{:?}", tree(&fields, joins_elements)));
            let first: Vec<_> = fields.iter().take(1000).cloned().collect();
            readings.push(format!("{:?}", tree(&first, joins_elements)));
        }
    }
    readings
}

/// What a strict and a lenient reader find in a body in parts: headers and body of each.
pub(crate) fn multipart_readings(body: &[u8], boundary: &[u8]) -> [Vec<(String, String)>; 2] {
    [b"\r\n".as_slice(), b"\n"].map(|line_end| body_parts(body, boundary, line_end))
}

/// What a careful reader finds in a `Content-Type` that keeps to the grammar: the type, and its
/// parameters by name.
pub(crate) fn type_reading(text: &str) -> (String, BTreeMap<String, String>) {
    let (mut pieces, mut piece) = (Vec::new(), String::new());
    let (mut is_quoted, mut is_escaped) = (false, false);
    for character in text.chars() {
        match character {
            other if is_escaped => piece.push(other),
            '"' => is_quoted = !is_quoted,
            ';' if !is_quoted => pieces.push(std::mem::take(&mut piece)),
            '\\' if is_quoted => {}
            other => piece.push(other),
        }
        is_escaped = is_quoted && !is_escaped && character == '\\';
    }
    pieces.push(piece);
    let essence = pieces.remove(0).trim_ascii().to_ascii_lowercase();
    let mut parameters = BTreeMap::new();
    for (name, value) in pieces.iter().filter_map(|piece| piece.split_once('=')) {
        let name = name.trim_ascii().to_ascii_lowercase();
        // The blanks behind a bare value are gone with those within quotes: no matter, if nothing
        // else differs.
        let value = value.trim_ascii_end();
        let is_charset = name == "charset";
        let value = if is_charset { value.to_ascii_lowercase() } else { value.to_owned() };
        parameters.insert(name, value);
    }
    (essence, parameters)
}

type Field = (Vec<u8>, Option<Vec<u8>>);

fn fields(body: &[u8], separators: &[u8]) -> Vec<Field> {
    let texts = body.split(|byte| separators.contains(byte)).filter(|text| !text.is_empty());
    texts
        .map(|text| {
            let mut sides = text.splitn(2, |byte| *byte == b'=');
            (decoded(sides.next().unwrap_or_default()), sides.next().map(decoded))
        })
        .collect()
}

fn decoded(text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let escaped = text.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = escaped.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match (text[at], escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok())) {
            (b'%', Some(byte)) => {
                decoded.push(byte);
                at += 2;
            }
            (b'+', _) => decoded.push(b' '),
            (byte, _) => decoded.push(byte),
        }
        at += 1;
    }
    decoded
}

/// All values of each name, in their order.
fn by_name(
    fields: &[Field],
    spelled: impl Fn(&[u8]) -> Vec<u8>,
) -> BTreeMap<Vec<u8>, Vec<&Option<Vec<u8>>>> {
    let mut values = BTreeMap::<_, Vec<_>>::new();
    for (name, value) in fields {
        values.entry(spelled(name)).or_default().push(value);
    }
    values
}

/// Values within values. The last one in a place wins.
#[derive(Debug, PartialEq, Eq)]
enum Tree {
    Text(Option<Vec<u8>>),
    Node(BTreeMap<Vec<u8>, Tree>),
}

/// As PHP reads a form; or as Rack does, which fills the last element of a list as long as it can.
fn tree(fields: &[Field], joins_elements: bool) -> Tree {
    let mut root = Tree::Node(BTreeMap::new());
    for (name, value) in fields {
        root.insert(&path(name), value.as_deref(), joins_elements);
    }
    root
}

/// `a[b][]` as `a`, `b` and the next; what else may stand in a root is an underscore to PHP, and a
/// dot is a bracket to others. Here it is an underscore.
fn path(name: &[u8]) -> Vec<Vec<u8>> {
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    let mut pieces = name.split(|byte| *byte == b'[');
    let root = pieces.next().unwrap_or_default().trim_ascii_start();
    let root = root.iter().map(|byte| if b". ".contains(byte) { b'_' } else { *byte }).collect();
    let inner = pieces.map(|piece| piece.split(|byte| *byte == b']').next().unwrap_or_default());
    std::iter::once(root).chain(inner.map(<[u8]>::to_vec)).collect()
}

// === impl Tree ===

impl Tree {
    fn insert(&mut self, path: &[Vec<u8>], value: Option<&[u8]>, joins_elements: bool) {
        let [step, rest @ ..] = path else {
            *self = Self::Text(value.map(<[u8]>::to_vec));
            return;
        };
        if let Self::Text(_) = self {
            *self = Self::Node(BTreeMap::new());
        }
        let Self::Node(members) = self else { return };
        let step = if step.is_empty() { next(members, rest, joins_elements) } else { step.clone() };
        let place = members.entry(step).or_insert(Self::Text(None));
        place.insert(rest, value, joins_elements);
    }
}

fn next(members: &BTreeMap<Vec<u8>, Tree>, rest: &[Vec<u8>], joins_elements: bool) -> Vec<u8> {
    let index = |number: usize| format!("{number:04}").into_bytes();
    let count = members.len();
    let last = count.checked_sub(1).map(index);
    match (last, rest.first()) {
        (Some(last), Some(step)) if joins_elements && has_room(members.get(&last), step) => last,
        _ => index(count),
    }
}

fn has_room(element: Option<&Tree>, step: &[u8]) -> bool {
    matches!(element, Some(Tree::Node(members)) if !members.contains_key(step))
}

/// Line by line: everything between lines that begin with the delimiter, up to the closing one.
fn body_parts(body: &[u8], boundary: &[u8], line_end: &[u8]) -> Vec<(String, String)> {
    let (delimiter, mut parts) = ([b"--", boundary].concat(), Vec::new());
    let mut open: Option<Vec<&[u8]>> = None;
    for line in lines(body, line_end) {
        let Some(rest) = line.strip_prefix(delimiter.as_slice()) else {
            if let Some(lines) = &mut open {
                lines.push(line);
            }
            continue;
        };
        parts.extend(open.take().map(|lines| body_part(&lines, line_end)));
        if rest.starts_with(b"--") {
            break;
        }
        open = Some(Vec::new());
    }
    parts
}

fn body_part(lines: &[&[u8]], line_end: &[u8]) -> (String, String) {
    let end = lines.iter().position(|line| line.trim_ascii().is_empty()).unwrap_or(lines.len());
    let headers = lines[..end].iter().map(|line| {
        let line = String::from_utf8_lossy(line);
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        format!("{}:{}", name.trim().to_lowercase(), value.trim())
    });
    let body = lines.get(end + 1..).unwrap_or_default().join(line_end);
    (headers.collect::<Vec<_>>().join("\n"), body.escape_ascii().to_string())
}

fn lines<'a>(body: &'a [u8], line_end: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = Some(body);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = text.windows(line_end.len()).position(|window| window == line_end);
        rest = end.map(|end| &text[end + line_end.len()..]);
        Some(&text[..end.unwrap_or(text.len())])
    })
}
