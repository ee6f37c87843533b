//! The share of writes among the last verbs.

use std::sync::atomic::{AtomicU32, Ordering};

/// The ratio of writes: a moving average.
#[derive(Debug)]
pub(super) struct WriteRatio(AtomicU32);

/// All of the latest verbs wrote.
const ALWAYS: u32 = 1 << 16;
/// The size of the window.
const LAST: u32 = 64;

// === impl WriteRatio ===

impl WriteRatio {
    /// Two concurrent verbs may be counted as one: it is an average.
    pub(super) fn note(&self, wrote: bool) {
        let before = self.0.load(Ordering::Relaxed);
        let new = if wrote { ALWAYS } else { 0 };
        self.0.store(before - before / LAST + new / LAST, Ordering::Relaxed);
    }

    /// Whether few of the latest verbs wrote.
    pub(super) fn is_reading(&self) -> bool {
        self.0.load(Ordering::Relaxed) < ALWAYS / 8
    }
}

impl Default for WriteRatio {
    /// The first verbs of a new store write.
    fn default() -> Self {
        Self(AtomicU32::new(ALWAYS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratio_follows_the_verbs_with_a_delay() {
        let ratio = WriteRatio::default();
        assert!(!ratio.is_reading());
        for _ in 0..10 {
            ratio.note(false);
        }
        assert!(!ratio.is_reading(), "a few replays in between");
        for _ in 0..500 {
            ratio.note(false);
        }
        assert!(ratio.is_reading());
        for _ in 0..20 {
            ratio.note(true);
        }
        assert!(!ratio.is_reading());
        for _ in 0..1_000_000 {
            ratio.note(true);
        }
        assert!(ratio.0.load(Ordering::Relaxed) <= ALWAYS);
    }
}
