use std::fmt;

use crate::digest::PartsHasher;

/// The namespace of a key: the client identity, the method and the route.
///
/// Two scopes never share a record, with any keys (invariant I7). Only a hash is
/// kept: an identity such as an `Authorization` header never reaches a store, a log or a metric.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Scope([u8; 32]);

// === impl Scope ===

impl Scope {
    /// A scope made of named parts; names, values and order all count.
    pub fn new<'a, V>(parts: impl IntoIterator<Item = (&'a str, V)>) -> Self
    where
        V: AsRef<[u8]>,
    {
        let hasher =
            parts.into_iter().fold(PartsHasher::new("semel scope 1"), |hasher, (name, value)| {
                hasher.part(name.as_bytes()).part(value.as_ref())
            });
        Self(hasher.finish())
    }

    /// The scope that all clients share.
    pub fn global() -> Self {
        Self::new::<&[u8]>([])
    }

    pub(crate) fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scope({}…)", crate::digest::hex(&self.0[..6]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_values_and_order_all_count() {
        let base = Scope::new([("who", "ann"), ("what", "POST /a")]);
        assert_eq!(base, Scope::new([("who", "ann"), ("what", "POST /a")]));
        assert_ne!(base, Scope::new([("who", "bob"), ("what", "POST /a")]));
        assert_ne!(base, Scope::new([("what", "ann"), ("who", "POST /a")]));
        assert_ne!(base, Scope::new([("what", "POST /a"), ("who", "ann")]));
        assert_ne!(base, Scope::global());
    }

    #[test]
    fn debug_shows_no_identity() {
        let shown = format!("{:?}", Scope::new([("who", "Bearer secret")]));
        assert!(!shown.contains("secret"), "{shown}");
    }
}
