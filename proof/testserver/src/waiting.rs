//! Waiting for other processes.
#![expect(clippy::disallowed_methods, reason = "real processes live in real time")]

use std::thread;
use std::time::{Duration, Instant};

const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// Polls until there is a result; `None` after `limit`.
pub(crate) fn wait_for<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        if let Some(seen) = look() {
            return Some(seen);
        }
        if start.elapsed() > limit {
            return None;
        }
        thread::sleep(BETWEEN_LOOKS);
    }
}
