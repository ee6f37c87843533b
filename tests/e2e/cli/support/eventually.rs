//! Waiting for a condition. Shared with the tests of the examples.

use std::thread;
use std::time::Duration;

use super::TIMEOUT;

/// Waits until there is something.
pub(crate) fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let pause = Duration::from_millis(10);
    for _ in 0..TIMEOUT.as_millis() / pause.as_millis() {
        if let Some(found) = attempt() {
            return found;
        }
        thread::sleep(pause);
    }
    panic!("waited in vain: {what}");
}
