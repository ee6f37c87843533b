use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use semel_core::Timestamp;
use semel_store::Clock;
use tokio::time::Instant;

/// What the store's clock shows when a run begins.
const START: Timestamp = Timestamp::from_millis(1_000_000_000_000);

/// The clock of the simulated store: it follows simulated time, and can be set forward and back.
#[derive(Debug)]
pub(crate) struct ServerTime {
    since: Instant,
    offset_ms: AtomicI64,
    set_backs: AtomicU64,
}

// === impl ServerTime ===

impl ServerTime {
    pub(crate) fn start() -> Self {
        Self { since: Instant::now(), offset_ms: AtomicI64::new(0), set_backs: AtomicU64::new(0) }
    }

    /// How much simulated time has passed since the run began.
    pub(crate) fn elapsed(&self) -> Duration {
        self.since.elapsed()
    }

    /// Jumps. Nodes are notified of a jump back, unless a planted mistake prevents it.
    pub(crate) fn jump(&self, by_ms: i64, is_told: bool) {
        self.offset_ms.fetch_add(by_ms, Ordering::Relaxed);
        self.set_backs.fetch_add(u64::from(by_ms < 0 && is_told), Ordering::Relaxed);
    }
}

impl Clock for ServerTime {
    fn now(&self) -> Timestamp {
        let steady = START.plus(self.elapsed()).as_millis();
        let offset = self.offset_ms.load(Ordering::Relaxed);
        Timestamp::from_millis(steady.saturating_add_signed(offset))
    }

    fn set_backs(&self) -> u64 {
        self.set_backs.load(Ordering::Relaxed)
    }
}
