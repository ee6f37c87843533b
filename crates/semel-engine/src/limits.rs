use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

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
    /// How long a caller whose work has ended waits for the outcome to become durable, before it
    /// is told the outcome with [`Stored::NotYet`](crate::Stored::NotYet).
    pub settle_patience: Duration,
}

/// Counts users of something against a limit.
#[derive(Debug)]
pub(crate) struct Slots {
    free: Arc<Semaphore>,
    max: usize,
}

/// One of the [`Slots`], given back when dropped.
#[derive(Debug)]
pub(crate) struct Slot(#[expect(dead_code, reason = "held for its drop")] OwnedSemaphorePermit);

// === impl Limits ===

impl Default for Limits {
    fn default() -> Self {
        Self {
            executions_max: 100_000,
            waiters_max: 10_000,
            waiters_per_record_max: 1_000,
            // Above the deadline of `semel_store::Guarded`, whose breaker should hear of it first.
            verb_timeout: Duration::from_secs(3),
            settle_patience: Duration::from_secs(3),
        }
    }
}

// === impl Slots ===

impl Slots {
    pub(crate) fn new(max: usize) -> Self {
        let max = max.min(Semaphore::MAX_PERMITS);
        Self { free: Arc::new(Semaphore::new(max)), max }
    }

    /// A slot, unless all are taken. Never waits.
    pub(crate) fn take(&self) -> Option<Slot> {
        Arc::clone(&self.free).try_acquire_owned().ok().map(Slot)
    }

    pub(crate) const fn max(&self) -> usize {
        self.max
    }

    pub(crate) fn taken(&self) -> usize {
        self.max - self.free.available_permits()
    }
}
