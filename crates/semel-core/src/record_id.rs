use std::fmt;

use crate::digest::{PartsHasher, hex};
use crate::{Key, Scope};

/// The name of a record in a store: SHA-256 over namespace, scope and key, each with its length.
///
/// The raw key is never stored or used for a lookup.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId([u8; 32]);

// === impl RecordId ===

impl RecordId {
    /// Names the record of `key` within `scope`; `namespace` keeps applications apart that share a
    /// store.
    pub fn new(namespace: &str, scope: &Scope, key: &Key) -> Self {
        let hasher = PartsHasher::new("semel record 1")
            .part(namespace.as_bytes())
            .part(scope.as_bytes())
            .part(key.as_str().as_bytes());
        Self(hasher.finish())
    }

    /// An id as a store has kept it.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes of the id.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first twelve hexadecimal digits: what logs show.
    pub fn prefix(&self) -> String {
        hex(&self.0[..6])
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordId({}…)", self.prefix())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(namespace: &str, who: &str, key: &str) -> RecordId {
        RecordId::new(namespace, &Scope::new([("who", who)]), &Key::parse(key).unwrap())
    }

    #[test]
    fn namespace_scope_and_key_all_count() {
        let base = id("n", "ann", "k");
        assert_eq!(base, id("n", "ann", "k"));
        assert_ne!(base, id("m", "ann", "k"));
        assert_ne!(base, id("n", "bob", "k"));
        assert_ne!(base, id("n", "ann", "l"));
    }

    /// Stores keep these bytes: a change here would orphan every record ever written.
    #[test]
    fn derivation_is_stable() {
        assert_eq!(
            id("shop", "ann", "order-1").to_string(),
            "e481cc017bd87fdea07dc15a0ed001169d5dd784971f3c630b4c3b8b2e388ed9"
        );
    }
}
