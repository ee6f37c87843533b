//! Waiting for what must happen, and no longer than it may take.
#![expect(clippy::disallowed_methods, reason = "real sockets live in real time")]

use std::time::{Duration, Instant};

/// How long anything may take before a test fails.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// Measures how long something takes.
#[derive(Clone, Copy)]
pub(crate) struct Watch(Instant);

// === impl Watch ===

impl Watch {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    /// Waits until this much time has passed since the start.
    pub(crate) fn reach(self, elapsed: Duration) {
        std::thread::sleep(elapsed.saturating_sub(self.elapsed()));
    }
}

/// Looks until `look` finds something.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let watch = Watch::start();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(watch.elapsed() < LIMIT, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
