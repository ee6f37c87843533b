use sha2::{Digest as _, Sha256};

/// SHA-256 over parts that each carry their length, so that no two lists of parts hash the same
/// bytes: `("ab", "c")` and `("a", "bc")` differ.
pub(crate) struct PartsHasher(Sha256);

// === impl PartsHasher ===

impl PartsHasher {
    /// Starts with a domain, so that a scope, a fingerprint and a record id made of equal parts
    /// still differ.
    pub(crate) fn new(domain: &str) -> Self {
        Self(Sha256::new()).part(domain.as_bytes())
    }

    pub(crate) fn part(mut self, part: &[u8]) -> Self {
        self.0.update((part.len() as u64).to_be_bytes());
        self.0.update(part);
        self
    }

    pub(crate) fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_delimited_by_their_lengths() {
        let hash = |parts: &[&str]| {
            parts.iter().fold(PartsHasher::new("t"), |h, p| h.part(p.as_bytes())).finish()
        };
        assert_ne!(hash(&["ab", "c"]), hash(&["a", "bc"]));
        assert_ne!(hash(&["ab"]), hash(&["ab", ""]));
        assert_ne!(PartsHasher::new("a").finish(), PartsHasher::new("b").finish());
    }

    #[test]
    fn hex_is_lower_case_and_padded() {
        assert_eq!(hex(&[0, 10, 255]), "000aff");
    }
}
