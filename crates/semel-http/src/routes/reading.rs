//! What a server does to a path before it takes it apart.

use super::octets::{Octet, octets, push_spelled};

/// What a server takes for a slash, or for the end of a name, besides slashes themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    /// `%2F` is a slash.
    pub(super) slash: bool,
    /// `%5C` and `\` are slashes.
    pub(super) backslash: bool,
    /// The parameters of a segment (`;a=b`) are no part of its name.
    pub(super) parameters: bool,
}

// === impl Reading ===

impl Reading {
    /// As RFC 3986 has it.
    pub(super) const STRICT: Self = Self { slash: false, backslash: false, parameters: false };
    /// All that may be a slash is one.
    pub(super) const SPLIT: Self = Self { slash: true, backslash: true, parameters: false };
    /// All at once.
    pub(super) const LENIENT: Self = Self { slash: true, backslash: true, parameters: true };

    /// The path with each octet in its one spelling. Nothing is decoded twice. Dots and empty
    /// segments stay.
    pub(super) fn of(self, path: &str) -> String {
        let mut out = String::with_capacity(path.len() + 8);
        let mut in_parameters = false;
        for octet in octets(path) {
            if self.is_slash(octet) {
                in_parameters = false;
                out.push('/');
                continue;
            }
            in_parameters |= self.parameters && octet == Octet::Raw(b';');
            if !in_parameters {
                push_spelled(&mut out, octet);
            }
        }
        out
    }

    fn is_slash(self, octet: Octet) -> bool {
        match octet {
            Octet::Raw(b'/') => true,
            Octet::Escaped(b'/') => self.slash,
            Octet::Raw(b'\\') | Octet::Escaped(b'\\') => self.backslash,
            _ => false,
        }
    }
}
