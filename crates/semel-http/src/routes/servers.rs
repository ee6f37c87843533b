//! How servers read paths, from the most lenient to the strictest: for tests.

/// What a server does to a path before it looks for a handler.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each stands for itself")]
pub(crate) struct Server {
    /// Escapes are undone before the path is taken apart, so that `%2F` is a slash.
    decodes_first: bool,
    /// A backslash is a slash.
    backslash: bool,
    /// The path ends at a control character.
    ends_at_control: bool,
    /// `%C0%AF` is a slash, and `%C0%AE` a dot.
    overlong: bool,
    parameters: Parameters,
    /// `.` and `..` are names.
    dots_are_names: bool,
}

/// What becomes of `;a=b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parameters {
    Kept,
    /// `..;a=b` is `..`.
    DroppedFromDots,
    Dropped,
}

/// Takes the path apart first, and decodes its segments then.
const STRICT: Server = Server {
    decodes_first: false,
    backslash: false,
    ends_at_control: false,
    overlong: false,
    parameters: Parameters::Kept,
    dots_are_names: false,
};

/// Does at once what does not depend on the routes that there are.
const LENIENT: Server = Server {
    decodes_first: true,
    backslash: true,
    ends_at_control: true,
    overlong: true,
    parameters: Parameters::DroppedFromDots,
    dots_are_names: false,
};

/// Kinds of servers that there are.
pub(crate) const SERVERS: &[Server] = &[
    STRICT,
    LENIENT,
    // nginx.
    Server { decodes_first: true, ..STRICT },
    // IIS.
    Server { decodes_first: true, backslash: true, ..STRICT },
    // Servlet containers, and old ones.
    Server { parameters: Parameters::Dropped, ..STRICT },
    Server { parameters: Parameters::Dropped, decodes_first: true, overlong: true, ..STRICT },
    // Node, by its older reader of URLs.
    Server { backslash: true, ..STRICT },
    // Servers in C.
    Server { decodes_first: true, ends_at_control: true, ..STRICT },
    // Express, Starlette.
    Server { dots_are_names: true, ..STRICT },
    Server { dots_are_names: true, decodes_first: true, ..STRICT },
];

/// The segments to the most lenient server.
pub(crate) fn lenient(path: &str) -> Vec<Vec<u8>> {
    read(LENIENT, path)
}

/// The segments to the most strict one.
pub(crate) fn strict(path: &str) -> Vec<Vec<u8>> {
    read(STRICT, path)
}

/// The segments to a server.
pub(crate) fn read(server: Server, path: &str) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    for segment in segments(server, path) {
        match &*segment {
            b"." | b".." if server.dots_are_names => out.push(segment),
            b"" | b"." => {}
            b".." => drop(out.pop()),
            _ => out.push(segment),
        }
    }
    out
}

/// True if the path leads above its root there.
pub(crate) fn leads_above(server: Server, path: &str) -> bool {
    let mut depth = 0_usize;
    for segment in segments(server, path) {
        match &*segment {
            b"" | b"." => {}
            b".." if depth == 0 => return true,
            b".." => depth -= 1,
            _ => depth += 1,
        }
    }
    false
}

/// The segments of a path that has neither dots nor empty segments any more.
pub(crate) fn decoded(path: &str) -> Vec<Vec<u8>> {
    let segments = path.split('/').filter(|segment| !segment.is_empty());
    segments.map(|segment| percent_decoded(segment.as_bytes())).collect()
}

fn segments(server: Server, path: &str) -> Vec<Vec<u8>> {
    let mut bytes = path.as_bytes().to_vec();
    if server.parameters == Parameters::Dropped {
        bytes = without_parameters(&bytes);
    }
    if server.decodes_first {
        bytes = percent_decoded(&bytes);
    }
    if server.overlong {
        bytes = without_overlong(&bytes);
    }
    if server.ends_at_control {
        let end = bytes.iter().position(u8::is_ascii_control).unwrap_or(bytes.len());
        bytes.truncate(end);
    }
    let is_slash = |byte: &u8| *byte == b'/' || (server.backslash && *byte == b'\\');
    let name = |segment: &[u8]| {
        let segment =
            if server.decodes_first { segment.to_vec() } else { percent_decoded(segment) };
        let dots = segment.split(|byte| *byte == b';').next().unwrap_or_default();
        let is_dots = matches!(dots, b"." | b"..") && server.parameters != Parameters::Kept;
        if is_dots { dots.to_vec() } else { segment }
    };
    bytes.split(is_slash).map(name).collect()
}

/// From each semicolon on, up to the next slash: as it is written, before escapes are undone.
fn without_parameters(path: &[u8]) -> Vec<u8> {
    let segments = path.split(|byte| *byte == b'/');
    let names = segments.map(|segment| segment.split(|byte| *byte == b';').next());
    names.map(Option::unwrap_or_default).collect::<Vec<_>>().join(&b'/')
}

fn without_overlong(mut text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    while let [first, rest @ ..] = text {
        let decoded = match (first, rest) {
            (0xc0 | 0xc1, [second @ 0x80..=0xbf, ..]) => Some((first & 1) << 6 | (second & 0x3f)),
            _ => None,
        };
        out.push(decoded.unwrap_or(*first));
        text = &rest[usize::from(decoded.is_some())..];
    }
    out
}

fn percent_decoded(mut text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    while let [first, rest @ ..] = text {
        let digits = rest.get(..2).and_then(|digits| str::from_utf8(digits).ok());
        let is_hex = |digits: &&str| digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let escaped = digits.filter(is_hex).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        if let Some(byte) = escaped.filter(|_| *first == b'%') {
            out.push(byte);
            text = &rest[2..];
        } else {
            out.push(*first);
            text = rest;
        }
    }
    out
}
