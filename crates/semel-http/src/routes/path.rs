//! One spelling for all spellings of a path.

use std::borrow::Cow;

use super::octets::MAY_BE_RAW;
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

/// True if there is nothing to do. So it is for nearly every request, hence one pass without a copy.
fn is_plain(path: &[u8], without_empty_segments: bool) -> bool {
    let slash = if without_empty_segments { b'/' } else { b'.' };
    let mut before = 0;
    path.iter().all(|&byte| {
        let is_dot_or_empty = before == b'/' && (byte == b'.' || byte == slash);
        before = byte;
        !is_dot_or_empty && byte != b'%' && MAY_BE_RAW[byte as usize]
    })
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
