use std::fmt;
use std::num::NonZeroU64;

/// A number that rises with every lease of a record; a write with an older one is refused (I3).
///
/// It counts from one within the life of a record. A record that has expired starts again at one:
/// a holder from the earlier life is distinguished by its [`Owner`](crate::Owner).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(NonZeroU64);

// === impl Fence ===

impl Fence {
    /// The fence of a record's first lease.
    pub const FIRST: Self = Self(NonZeroU64::MIN);

    /// A fence as a store has kept it; zero is none.
    pub const fn new(number: u64) -> Option<Self> {
        match NonZeroU64::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    /// The fence of the lease after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The number itself.
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_count_from_one_and_rise() {
        assert_eq!(Fence::FIRST.get(), 1);
        assert!(Fence::FIRST.next() > Fence::FIRST);
        assert_eq!(Fence::new(0), None);
        assert_eq!(Fence::new(7).map(Fence::get), Some(7));
    }
}
