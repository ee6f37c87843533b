use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use semel_store::StoreError;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Detects the end of an outage, and wakes the holders that pause between two tries. Each
/// [shard](semel_store::Store::shard) of a store fails by itself, so only the holders that pause for that shard wake.
///
/// A lease that ran out in an outage still belongs to its holder until another process claims the record. So holders
/// must reach the store before new claims do.
#[derive(Debug)]
pub(crate) struct Outages {
    /// Whether there is an outage of any shard.
    is_on: AtomicBool,
    shards: [Outage; SHARDS],
}

#[derive(Debug, Default)]
struct Outage {
    is_on: AtomicBool,
    is_over: Notify,
    last_wake: Mutex<Option<Instant>>,
}

/// The number of shards that are distinguished; if there are more, some wake each other.
const SHARDS: usize = 32;
/// A store that fails every other call must not turn each pause into none.
const WAKE_EVERY: Duration = Duration::from_millis(200);

// === impl Outages ===

impl Default for Outages {
    fn default() -> Self {
        Self { is_on: AtomicBool::new(false), shards: std::array::from_fn(|_| Outage::default()) }
    }
}

impl Outages {
    /// Records the result of a call to a shard.
    pub(crate) fn note<T>(&self, shard: usize, answer: &Result<T, StoreError>) {
        match answer {
            Err(error) if error.is_outage() => {
                self.of(shard).is_on.store(true, Ordering::SeqCst);
                self.is_on.store(true, Ordering::SeqCst);
            }
            Err(_) => {}
            // Mostly false. Then nothing is written, and no cache line moves between threads.
            Ok(_) if !self.is_on.load(Ordering::Relaxed) => {}
            Ok(_) => self.is_back(shard),
        }
    }

    fn is_back(&self, shard: usize) {
        if !self.of(shard).ends() {
            return;
        }
        self.is_on.store(false, Ordering::SeqCst);
        // Includes outages that began in between.
        if self.shards.iter().any(|outage| outage.is_on.load(Ordering::SeqCst)) {
            self.is_on.store(true, Ordering::SeqCst);
        }
    }

    /// Completes when the shard answers again. Cancel-safe.
    pub(crate) async fn end(&self, shard: usize) {
        self.of(shard).is_over.notified().await;
    }

    const fn of(&self, shard: usize) -> &Outage {
        &self.shards[shard % SHARDS]
    }
}

// === impl Outage ===

impl Outage {
    /// Ends the outage, and returns whether there was one.
    fn ends(&self) -> bool {
        let was_on = self.is_on.swap(false, Ordering::SeqCst);
        if was_on && self.may_wake() {
            self.is_over.notify_waiters();
        }
        was_on
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
        Err(StoreError::unavailable("unavailable"))
    }

    async fn is_woken(end: &mut (impl Future<Output = ()> + Unpin)) -> bool {
        tokio::time::timeout(Duration::ZERO, end).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_answer_after_a_failure_wakes() {
        let outage = Outages::default();
        let mut end = Box::pin(outage.end(0));
        outage.note(0, &Ok(()));
        assert!(!is_woken(&mut end).await, "there was no outage");
        outage.note(0, &failed());
        assert!(!is_woken(&mut end).await);
        outage.note(0, &Ok(()));
        assert!(is_woken(&mut end).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_fails_every_other_call_does_not_wake_each_time() {
        let outage = Outages::default();
        outage.note(0, &failed());
        outage.note(0, &Ok(()));
        let mut end = Box::pin(outage.end(0));
        assert!(!is_woken(&mut end).await);
        outage.note(0, &failed());
        outage.note(0, &Ok(()));
        assert!(!is_woken(&mut end).await);
        tokio::time::sleep(WAKE_EVERY).await;
        outage.note(0, &failed());
        outage.note(0, &Ok(()));
        assert!(is_woken(&mut end).await);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_of_one_shard_does_not_end_the_outage_of_another() {
        let outages = Outages::default();
        outages.note(1, &failed());
        outages.note(2, &failed());
        let (mut one, mut other) = (Box::pin(outages.end(1)), Box::pin(outages.end(2)));
        assert!(!is_woken(&mut one).await && !is_woken(&mut other).await);
        outages.note(3, &Ok(()));
        assert!(!is_woken(&mut one).await && !is_woken(&mut other).await);
        outages.note(2, &Ok(()));
        assert!(!is_woken(&mut one).await);
        assert!(is_woken(&mut other).await);
        outages.note(1, &Ok(()));
        assert!(is_woken(&mut one).await);
    }
}
