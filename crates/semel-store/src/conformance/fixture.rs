use std::time::Duration;

use crate::Store;

/// How the suite makes a store, moves its time and opens it again.
///
/// What a store cannot do is declared here, as a constant, and the cases then check the declared
/// behaviour: nothing is skipped silently.
pub trait Fixture: Send + Sync + Sized + 'static {
    /// The store under test.
    type Store: Store;

    /// Whether the store keeps its records when it is closed. If not, [`reopen`](Fixture::reopen) must
    /// give an empty one.
    const DURABLE: bool;

    /// The clock of the store.
    const CLOCK: FixtureClock;

    /// The measure of all leases and retentions that a case waits for: leases last a few units,
    /// records about a dozen. At least 5 ms; on a real clock long enough that a handful of calls
    /// takes much less.
    const UNIT: Duration;

    /// Whether expired records stay until `sweep` deletes them. `false` for a store that deletes them by
    /// itself: its `sweep` deletes nothing.
    const SWEPT_BY_CALLER: bool = true;

    /// How many random histories the differential case runs.
    const HISTORIES: u32 = 256;

    /// How many keys the crowded case claims, settles and replays.
    const MANY: usize = 10_000;

    /// A fresh, empty store.
    fn make() -> impl Future<Output = Self> + Send;

    /// The store.
    fn store(&self) -> &Self::Store;

    /// Lets `duration` pass on the store's clock: a manual clock is moved, a real one waited for.
    fn advance(&self, duration: Duration) -> impl Future<Output = ()> + Send;

    /// Closes the store and opens it again on the same data; its clock continues.
    fn reopen(self) -> impl Future<Output = Self> + Send;
}

/// The clock of a fixture's store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FixtureClock {
    /// It stands still until the fixture advances it, so times are compared exactly and leases are
    /// tried at their very last moment.
    Manual,
    /// It runs by itself.
    Real {
        /// By how much two readings of the same moment may differ, at most a quarter of the unit.
        tolerance: Duration,
    },
}

// === impl FixtureClock ===

impl FixtureClock {
    /// By how much two readings of the same moment may differ.
    pub const fn tolerance(self) -> Duration {
        match self {
            Self::Manual => Duration::ZERO,
            Self::Real { tolerance } => tolerance,
        }
    }

    /// Whether time stands still between two advances.
    pub const fn is_manual(self) -> bool {
        matches!(self, Self::Manual)
    }
}
