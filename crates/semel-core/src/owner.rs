use std::fmt;

/// The owner of a claim: a random number made once per attempt.
///
/// A claim that is repeated after a time-out meets its own record and recognises itself by its
/// owner (I3), and a holder from an earlier life of the record is distinguished from today's.
/// Never use one owner for two attempts: the second would be taken for a repeat of the first.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Owner(u128);

// === impl Owner ===

impl Owner {
    /// An owner from 128 random bits.
    pub const fn from_u128(bits: u128) -> Self {
        Self(bits)
    }

    /// The 128 bits.
    pub const fn as_u128(self) -> u128 {
        self.0
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Owner({:08x}…)", self.0 >> 96)
    }
}
