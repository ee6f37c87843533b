//! Where `..` leads to.

use super::octets::{Octet, octets};
use super::reading::Reading;

/// True if the path could lead above its root. It is read as a strict server does and as a lenient
/// one does. Where a server between the two could have fewer names to go up from, any `..` is one too
/// many: to one that takes `%2F` for a slash and `%5C` for none, `/a%5Cb%2F../..` leads above. A `%` that
/// is no escape could stand for anything: to some servers `%u002e` is a dot.
pub fn leaves_root(path: &str) -> bool {
    if !path.contains("..") && !path.contains('%') {
        return false;
    }
    has_broken_escape(path)
        || is_above_root(path)
        || is_overlong(path)
        || (is_doubtful(path) && goes_up(path))
}

/// True if it leads above its root, to a strict server or to a lenient one.
pub(super) fn is_above_root(path: &str) -> bool {
    [Reading::STRICT, Reading::LENIENT].into_iter().any(|reading| climbs(&reading.of(path)))
}

/// True if it has more `..` than segments before them. Empty segments count for nothing.
fn climbs(path: &str) -> bool {
    let mut depth = 0_usize;
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." if depth == 0 => return true,
            ".." => depth -= 1,
            _ => depth += 1,
        }
    }
    false
}

/// True if it has a `..` to a lenient server, one also that ends a name at a control character, at an
/// escaped semicolon or at a blank.
pub(super) fn goes_up(path: &str) -> bool {
    Reading::LENIENT.of(path).split('/').any(|segment| match segment.as_bytes() {
        b".." => true,
        [b'.', b'.', b'%', high, low, ..] => {
            matches!((high, low), (b'0' | b'1', _) | (b'2', b'0') | (b'3', b'B') | (b'7', b'F'))
        }
        _ => false,
    })
}

/// True if servers disagree on where its segments and their names end.
fn is_doubtful(path: &str) -> bool {
    octets(path).any(|octet| match octet {
        Octet::Escaped(byte) => matches!(byte, b'/' | b'\\' | b';' | 0..0x20 | 0x7f),
        Octet::Raw(byte) => matches!(byte, b'\\' | 0..0x20 | 0x7f),
        Octet::BrokenEscape => false,
    })
}

fn has_broken_escape(path: &str) -> bool {
    octets(path).any(|octet| octet == Octet::BrokenEscape)
}

/// True if it has a character in more bytes than UTF-8 has for it. Old servers decode `%C0%AF` to a
/// slash, and `%C0%AE` to a dot.
pub(super) fn is_overlong(path: &str) -> bool {
    let mut before = None;
    octets(path).any(|octet| {
        let is_overlong = match (before, octet) {
            (Some(Octet::Escaped(0xc0 | 0xc1)), Octet::Escaped(byte)) => byte & 0xc0 == 0x80,
            (Some(Octet::Escaped(0xe0)), Octet::Escaped(byte)) => matches!(byte, 0x80..=0x9f),
            (Some(Octet::Escaped(0xf0)), Octet::Escaped(byte)) => matches!(byte, 0x80..=0x8f),
            _ => false,
        };
        before = Some(octet);
        is_overlong
    })
}

/// True if what `..` leads to depends on whether empty segments count. To some servers `/a//../b` is
/// `/b`, and to others `/a/b`: it could come under a route of one and reach the other.
pub fn goes_up_after_empty_segment(path: &str) -> bool {
    let is_up = |segment: &str| segment.to_ascii_lowercase().replace("%2e", ".") == "..";
    let mut segments = path.split('/').skip(1);
    path.contains("//") && segments.any(str::is_empty) && segments.any(is_up)
}

/// True if a path in its one spelling has `.` or `..` with a parameter, which some servers leave out
/// before they resolve dots.
pub(super) fn has_dots_with_parameter(path: &str) -> bool {
    path.replace("%3B", ";")
        .split('/')
        .filter_map(|segment| segment.split_once(';'))
        .any(|(dots, _)| matches!(dots, "." | ".."))
}

#[cfg(test)]
mod tests;
