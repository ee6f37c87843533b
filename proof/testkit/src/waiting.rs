//! Waiting for conditions.

use std::thread;
use std::time::{Duration, Instant};

/// How long a condition may take. No longer than a default lease, or a lease that runs out would pass for a release.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The moment.
#[expect(clippy::disallowed_methods, reason = "real processes live in real time")]
pub fn now() -> Instant {
    Instant::now()
}

/// Looks until `look` finds something.
pub fn eventually<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    eventually_within(PATIENCE, what, look)
}

/// The same, for so long.
pub fn eventually_within<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = now() + limit;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(now() < deadline, "never happened within {limit:?}: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}
