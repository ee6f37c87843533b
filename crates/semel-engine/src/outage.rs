use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use semel_store::StoreError;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Notices that the store is back, and wakes the holders that pause between two tries.
///
/// A lease that ran out in an outage is still its holder's until another process claims the record. So holders
/// must be the first to reach the store after an outage, not the last.
#[derive(Debug, Default)]
pub(crate) struct Outage {
    is_on: AtomicBool,
    is_over: Notify,
    last_wake: Mutex<Option<Instant>>,
}

/// A store that fails every other call must not turn each pause into none.
const WAKE_EVERY: Duration = Duration::from_millis(200);

// === impl Outage ===

impl Outage {
    /// Takes note of how a call ended.
    pub(crate) fn note<T>(&self, answer: &Result<T, StoreError>) {
        match answer {
            Err(error) if error.is_outage() => self.is_on.store(true, Ordering::Relaxed),
            Err(_) => {}
            // Mostly false, and then nothing is written that other threads would have to read again.
            Ok(_) if !self.is_on.load(Ordering::Relaxed) => {}
            Ok(_) => {
                if self.is_on.swap(false, Ordering::Relaxed) && self.may_wake() {
                    self.is_over.notify_waiters();
                }
            }
        }
    }

    /// Completes when the store answers again. Cancel-safe.
    pub(crate) async fn end(&self) {
        self.is_over.notified().await;
    }

    fn may_wake(&self) -> bool {
        let now = Instant::now();
        let mut last = self.last_wake.lock().unwrap_or_else(PoisonError::into_inner);
        let may = last.is_none_or(|last| now.duration_since(last) >= WAKE_EVERY);
        if may {
            *last = Some(now);
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed() -> Result<(), StoreError> {
        Err(StoreError::unavailable("away"))
    }

    async fn is_woken(end: &mut (impl Future<Output = ()> + Unpin)) -> bool {
        tokio::time::timeout(Duration::ZERO, end).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_answer_after_a_failure_wakes() {
        let outage = Outage::default();
        let mut end = Box::pin(outage.end());
        outage.note(&Ok(()));
        assert!(!is_woken(&mut end).await, "there was no outage");
        outage.note(&failed());
        assert!(!is_woken(&mut end).await);
        outage.note(&Ok(()));
        assert!(is_woken(&mut end).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flickering_store_does_not_wake_each_time() {
        let outage = Outage::default();
        outage.note(&failed());
        outage.note(&Ok(()));
        let mut end = Box::pin(outage.end());
        assert!(!is_woken(&mut end).await);
        outage.note(&failed());
        outage.note(&Ok(()));
        assert!(!is_woken(&mut end).await);
        tokio::time::sleep(WAKE_EVERY).await;
        outage.note(&failed());
        outage.note(&Ok(()));
        assert!(is_woken(&mut end).await);
    }
}
