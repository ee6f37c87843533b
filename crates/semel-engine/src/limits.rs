use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The limits of one engine (I10).
///
/// ```
/// use semel_engine::Limits;
///
/// let limits = Limits { waiters_max: 500, ..Limits::default() };
/// assert_eq!(limits.executions_max, 100_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many attempts may claim, execute or settle at once, those that settle in the background
    /// included. One more is refused with
    /// [`TooManyExecutions`](crate::EngineError::TooManyExecutions) before its claim.
    pub executions_max: usize,
    /// How many duplicates may wait for an outcome at once. One more is answered
    /// [`InFlight`](crate::Answer::InFlight) without waiting.
    pub waiters_max: usize,
    /// How many of them may wait for the same record; one more is answered as above.
    pub waiters_per_record_max: usize,
    /// How long one call of a verb may take before it counts as timed out. A renewal, and a
    /// settlement in the background, get less when the lease is short.
    pub verb_timeout: Duration,
    /// How long a caller whose work has ended waits until the outcome is durable. After that it gets the
    /// outcome with [`Stored::NotYet`](crate::Stored::NotYet), and the settlement continues in the background.
    pub settle_timeout: Duration,
}

/// Counts users of something against a limit.
#[derive(Debug)]
pub(crate) struct Slots {
    taken: Arc<AtomicUsize>,
    max: usize,
}

/// One of the [`Slots`], given back when dropped.
#[derive(Debug)]
pub(crate) struct Slot(Arc<AtomicUsize>);

// === impl Limits ===

impl Default for Limits {
    fn default() -> Self {
        Self {
            executions_max: 100_000,
            waiters_max: 10_000,
            waiters_per_record_max: 1_000,
            // Above the deadline of `semel_store::Guarded`, whose breaker should see the timeout first.
            verb_timeout: Duration::from_secs(3),
            settle_timeout: Duration::from_secs(3),
        }
    }
}

// === impl Slots ===

impl Slots {
    pub(crate) fn new(max: usize) -> Self {
        Self { taken: Arc::default(), max }
    }

    /// A slot, unless all are taken. Never waits.
    pub(crate) fn take(&self) -> Option<Slot> {
        let one_more = |taken: usize| (taken < self.max).then_some(taken + 1);
        self.taken.try_update(Ordering::Acquire, Ordering::Relaxed, one_more).ok()?;
        Some(Slot(Arc::clone(&self.taken)))
    }

    pub(crate) const fn max(&self) -> usize {
        self.max
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Acquire)
    }
}

// === impl Slot ===

impl Drop for Slot {
    fn drop(&mut self) {
        // Release: the next holder of the slot sees the writes of this one.
        self.0.fetch_sub(1, Ordering::Release);
    }
}
