//! The ways in which servers read one path.

use super::ambiguity::Ambiguity;
use super::octets::{Octet, octets};
use super::path::{Empty, resolved};
use super::reading::Reading;

/// A path as a server may have it when it looks for a handler.
pub(super) struct Read {
    pub(super) path: String,
    /// What another server does not do to the path.
    pub(super) ambiguity: Ambiguity,
}

/// All that servers may take a path for: each of what some of them do to it is done or not. At most
/// sixteen, and hardly ever more than two.
pub(super) fn readings(path: &str) -> Vec<Read> {
    let has = |wanted: Octet| octets(path).any(|octet| octet == wanted);
    let mut all = Vec::new();
    for &slash in done_or_not(has(Octet::Escaped(b'/'))) {
        for &backslash in done_or_not(has(Octet::Escaped(b'\\'))) {
            for &parameters in done_or_not(has(Octet::Raw(b';'))) {
                let reading = Reading { slash, backslash, parameters };
                let (text, ambiguity) = (reading.of(path), ambiguity_of(reading));
                all.push(Read { path: resolved(&text, Empty::Dropped), ambiguity });
                all.extend(with_dots(&text).map(|path| Read { path, ambiguity }));
            }
        }
    }
    all
}

const fn ambiguity_of(reading: Reading) -> Ambiguity {
    if reading.slash || reading.backslash {
        Ambiguity::EncodedSlash
    } else if reading.parameters {
        Ambiguity::Parameter
    } else {
        Ambiguity::Dots
    }
}

const fn done_or_not(is_there: bool) -> &'static [bool] {
    if is_there { &[false, true] } else { &[false] }
}

/// The path to a server to which `.` and `..` are names. None if it has no such segments.
fn with_dots(path: &str) -> Option<String> {
    if !path.split('/').any(|segment| matches!(segment, "." | "..")) {
        return None;
    }
    let mut out = String::with_capacity(path.len());
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        out.extend(["/", segment]);
    }
    Some(out)
}
