//! Waiting for conditions.

use std::thread;
use std::time::Duration;

const LOOKS: usize = 6_000;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// Waits for a condition; a minute at most.
pub(crate) fn eventually(what: &str, mut seen: impl FnMut() -> bool) {
    for _ in 0..LOOKS {
        if seen() {
            return;
        }
        thread::sleep(BETWEEN_LOOKS);
    }
    panic!("it never happened that {what}");
}

/// The same for an asynchronous condition.
pub(crate) async fn eventually_async(what: &str, mut seen: impl AsyncFnMut() -> bool) {
    let look = async {
        while !seen().await {
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    };
    let limit = BETWEEN_LOOKS * u32::try_from(LOOKS).unwrap_or(u32::MAX);
    let seen = tokio::time::timeout(limit, look).await;
    assert!(seen.is_ok(), "it never happened that {what}");
}
