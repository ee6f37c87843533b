//! One spelling for all spellings of a path.

use std::borrow::Cow;

use super::octets::may_be_raw;
use super::reading::Reading;

/// The path by RFC 3986, section 6.2.2: escapes of unreserved characters decoded, other escapes in
/// upper case, what may not stand in a path escaped, `.` and `..` resolved. Empty segments stay.
///
/// Braces are left as they are, or decoded: patterns of routes are spelled with them.
pub(crate) fn normalised(path: &str) -> Cow<'_, str> {
    if is_plain(path.as_bytes(), false) {
        Cow::Borrowed(path)
    } else {
        Cow::Owned(resolved(&Reading::STRICT.of(path), Empty::Kept))
    }
}

/// The same with repeated slashes taken as one, as most servers have it when they look for a route.
///
/// Slashes come before dots, as nginx and Go have it: `/a//../b` is `/b`. Where that matters, a
/// request is refused.
pub(crate) fn merged(path: &str) -> Cow<'_, str> {
    if is_plain(path.as_bytes(), true) {
        Cow::Borrowed(path)
    } else {
        Cow::Owned(resolved(&Reading::STRICT.of(path), Empty::Dropped))
    }
}

/// True if there is nothing to do. So it is for nearly every request, hence one pass without a copy, and
/// without an early end: the compiler then looks at many bytes at once.
fn is_plain(path: &[u8], without_empty_segments: bool) -> bool {
    let (mut is_plain, mut before) = (true, 0);
    let slash = if without_empty_segments { b'/' } else { b'.' };
    for &byte in path {
        let is_dot_or_empty = before == b'/' && (byte == b'.' || byte == slash);
        is_plain &= !(is_dot_or_empty || byte == b'%' || !may_be_raw(byte));
        before = byte;
    }
    is_plain
}

/// What becomes of empty segments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Empty {
    Kept,
    Dropped,
}

/// The path without `.` and `..`. If it leads to a directory, it ends with a slash.
pub(super) fn resolved(path: &str, empty: Empty) -> String {
    let mut out = String::with_capacity(path.len());
    let mut is_directory = false;
    // What comes before the first slash is no segment.
    let path = path.strip_prefix('/').unwrap_or(path);
    for segment in path.split('/') {
        is_directory = matches!(segment, "." | "..");
        match segment {
            "." => {}
            ".." => out.truncate(out.rfind('/').unwrap_or(0)),
            "" if empty == Empty::Dropped => is_directory = true,
            name => {
                out.push('/');
                out.push_str(name);
            }
        }
    }
    if is_directory {
        out.push('/');
    }
    out
}

#[cfg(test)]
mod tests;
