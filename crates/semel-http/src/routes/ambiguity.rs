//! Paths that two servers may read differently.

use super::octets::{Octet, octets};
use super::reading::Reading;
use super::traversal::{
    goes_up, goes_up_after_empty_segment, has_dots_with_parameter, is_above_root, is_overlong,
};

/// Why two servers may take a path for two different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Ambiguity {
    #[error(
        "has an escaped slash or backslash (%2F, %5C), which some servers take for a slash; send it \
         in the query or in the body, or set path_encoded_slash = \"allow\" for the route"
    )]
    EncodedSlash,
    #[error(
        "has `..` beside an escaped slash or backslash (%2F, %5C), so that each server goes up from \
         another place; leave the `..` out"
    )]
    UpBesideEncodedSlash,
    #[error(
        "has a backslash, which some servers take for a slash; write a slash, or %5C in the query"
    )]
    Backslash,
    #[error("has a control character, at which some servers end the path; leave it out")]
    Control,
    #[error("has a character in more bytes than UTF-8 has for it; write it in its shortest form")]
    Overlong,
    #[error("leads above its root, where servers stay in different places; leave the `..` out")]
    AboveRoot,
    #[error(
        "has `..` after an empty segment, which servers read in two ways; leave one of them out"
    )]
    UpAfterEmptySegment,
    #[error(
        "has `.` or `..` with a parameter, which some servers resolve; leave the parameter out"
    )]
    DotsWithParameter,
    #[error("has a % that is no escape, which some servers take for %25; write %25")]
    BrokenEscape,
    #[error(
        "has a parameter (;), which some servers leave out, and is another route without it; write \
         %3B if it is part of a name"
    )]
    Parameter,
    #[error(
        "has `.` or `..`, and is another route to a server that takes them for names; leave them out"
    )]
    Dots,
}

/// True if there could be more than one reading. Hardly ever, so this is one pass without a copy.
pub(super) fn is_suspicious(path: &str) -> bool {
    let mut before = 0;
    path.bytes().any(|byte| {
        let is_dot = before == b'/' && byte == b'.';
        before = byte;
        is_dot || matches!(byte, b'%' | b'\\' | b';' | 0x7f)
    })
}

// === impl Ambiguity ===

impl Ambiguity {
    /// The worst that is in a path: what no setting allows comes first. What routes it could come
    /// under is not asked here, so parameters and dots are not among it.
    pub(crate) fn of(path: &str) -> Option<Self> {
        let mut slash = None;
        for octet in octets(path) {
            match octet {
                Octet::Raw(b'\\') => return Some(Self::Backslash),
                Octet::Raw(0..0x20 | 0x7f) | Octet::Escaped(0..0x20 | 0x7f) => {
                    return Some(Self::Control);
                }
                Octet::BrokenEscape => return Some(Self::BrokenEscape),
                Octet::Escaped(b'/' | b'\\') => slash = Some(Self::EncodedSlash),
                Octet::Raw(_) | Octet::Escaped(_) => {}
            }
        }
        if is_overlong(path) {
            Some(Self::Overlong)
        } else if is_above_root(path) {
            Some(Self::AboveRoot)
        } else if [path, &Reading::LENIENT.of(path)].into_iter().any(goes_up_after_empty_segment) {
            Some(Self::UpAfterEmptySegment)
        } else if has_dots_with_parameter(&Reading::SPLIT.of(path)) {
            Some(Self::DotsWithParameter)
        } else if slash.is_some() && goes_up(path) {
            Some(Self::UpBesideEncodedSlash)
        } else {
            slash
        }
    }
}

#[cfg(test)]
mod tests;
