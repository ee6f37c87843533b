use std::sync::atomic::{AtomicU32, Ordering};

/// How many of the last verbs wrote: a moving average.
#[derive(Debug)]
pub(super) struct Habit(AtomicU32);

/// All of the last verbs wrote.
const ALWAYS: u32 = 1 << 16;
/// The last so many count.
const LAST: u32 = 64;

// === impl Habit ===

impl Habit {
    /// Two verbs that come at once may be noted as one: it is an average.
    pub(super) fn note(&self, wrote: bool) {
        let before = self.0.load(Ordering::Relaxed);
        let new = if wrote { ALWAYS } else { 0 };
        self.0.store(before - before / LAST + new / LAST, Ordering::Relaxed);
    }

    /// Is it long since many verbs wrote?
    pub(super) fn is_reading(&self) -> bool {
        self.0.load(Ordering::Relaxed) < ALWAYS / 8
    }
}

impl Default for Habit {
    /// Whoever comes first has something to write.
    fn default() -> Self {
        Self(AtomicU32::new(ALWAYS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_what_happens_and_not_at_once() {
        let habit = Habit::default();
        assert!(!habit.is_reading());
        for _ in 0..10 {
            habit.note(false);
        }
        assert!(!habit.is_reading(), "a few replays in between");
        for _ in 0..500 {
            habit.note(false);
        }
        assert!(habit.is_reading());
        for _ in 0..20 {
            habit.note(true);
        }
        assert!(!habit.is_reading());
        for _ in 0..1_000_000 {
            habit.note(true);
        }
        assert!(habit.0.load(Ordering::Relaxed) <= ALWAYS);
    }
}
