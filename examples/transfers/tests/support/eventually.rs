//! Waiting for what other processes do.
#![expect(clippy::disallowed_methods, reason = "real processes live in real time")]

use std::thread;
use std::time::{Duration, Instant};

/// A loaded machine is slow.
const LIMIT: Duration = Duration::from_mins(1);
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// Looks until there is something to see.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(start.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
        thread::sleep(BETWEEN_LOOKS);
    }
}
