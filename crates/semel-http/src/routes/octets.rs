//! The octets of a path, each raw or escaped.

/// One octet of a path as it is written, or one that is escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Octet {
    Raw(u8),
    Escaped(u8),
    /// A `%` that no two hexadecimal digits follow.
    BrokenEscape,
}

/// True if it may stand in a path without an escape. Braces may not, strictly.
pub(super) const fn may_be_raw(byte: u8) -> bool {
    !matches!(byte, 0..=b' ' | b'"' | b'#' | b'<' | b'>' | b'?' | b'['..=b'^' | b'`' | b'|' | 0x7f..)
}

/// [`may_be_raw`] of each byte: a look-up is much cheaper, and every byte of every path needs one.
pub(super) static MAY_BE_RAW: [bool; 256] = {
    let (mut table, mut byte) = ([false; 256], 0_u8);
    while byte < u8::MAX {
        table[byte as usize] = may_be_raw(byte);
        byte += 1;
    }
    table
};

const fn is_unreserved_or_brace(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'{' | b'}')
}

/// The octets of a path, its escapes read once.
pub(super) fn octets(path: &str) -> impl Iterator<Item = Octet> {
    let mut rest = path.as_bytes();
    std::iter::from_fn(move || {
        let (octet, len) = match rest {
            [] => return None,
            [b'%', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (Octet::Escaped(digit(*high) << 4 | digit(*low)), 3)
            }
            [b'%', ..] => (Octet::BrokenEscape, 1),
            [byte, ..] => (Octet::Raw(*byte), 1),
        };
        rest = &rest[len..];
        Some(octet)
    })
}

const fn digit(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => byte - b'0',
        _ => byte.to_ascii_lowercase() - b'a' + 10,
    }
}

fn push_escape(out: &mut String, byte: u8) {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
    let [high, low] = [byte >> 4, byte & 15].map(|digit| DIGITS[usize::from(digit)]);
    out.extend(['%', high, low]);
}

/// Adds an octet in its one spelling.
pub(super) fn push_spelled(out: &mut String, octet: Octet) {
    match octet {
        Octet::Raw(byte) if may_be_raw(byte) => out.push(char::from(byte)),
        Octet::Escaped(byte) if is_unreserved_or_brace(byte) => out.push(char::from(byte)),
        Octet::Raw(byte) | Octet::Escaped(byte) => push_escape(out, byte),
        Octet::BrokenEscape => out.push('%'),
    }
}
