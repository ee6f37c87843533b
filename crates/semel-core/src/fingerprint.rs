use std::fmt;

use crate::digest::{PartsHasher, hex};

/// SHA-256 of the request parts that must be equal when a key comes again.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

// === impl Fingerprint ===

impl Fingerprint {
    /// A fingerprint of named parts; names, values and order all count.
    pub fn new<'a, V>(parts: impl IntoIterator<Item = (&'a str, V)>) -> Self
    where
        V: AsRef<[u8]>,
    {
        let hasher = parts
            .into_iter()
            .fold(PartsHasher::new("semel fingerprint 1"), |hasher, (name, value)| {
                hasher.part(name.as_bytes()).part(value.as_ref())
            });
        Self(hasher.finish())
    }

    /// A fingerprint as a store has kept it.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes of the fingerprint.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({}…)", hex(&self.0[..6]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cannot_flow_into_each_other() {
        let base = Fingerprint::new([("path", "/a"), ("body", "bc")]);
        assert_eq!(base, Fingerprint::new([("path", "/a"), ("body", "bc")]));
        assert_ne!(base, Fingerprint::new([("path", "/ab"), ("body", "c")]));
        assert_ne!(base, Fingerprint::new([("body", "/a"), ("path", "bc")]));
    }
}
