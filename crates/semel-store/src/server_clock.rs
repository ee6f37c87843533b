//! The time of a server, estimated on this node without a call per request.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use semel_core::Timestamp;
use tokio::time::{Instant, sleep};

use crate::{Clock, Store};

/// The clock of a store's server, carried on by this machine's monotonic clock since the latest answer:
/// for a [`Cached`](crate::Cached) store on a server.
///
/// Leases and expiry are decided by the server alone, by its own clock (trap 18). Only the cache needs
/// to know the time here: a copy of a settled record must not be replayed when the record has expired,
/// for by then another node may have executed again under its key. This machine's own time of day
/// would not do, since it may be minutes behind the server's. So this clock follows the server's
/// answers, and errs on one side: it is never behind the server's clock, but may be a little ahead, which
/// only costs hits.
///
/// - The server's time is taken as that of the moment when the *request* was sent: the latency
///   makes this clock early, never late.
/// - While the server does not answer the clock runs a thousandth fast: more than the drift
///   between two clocks.
/// - Before the first answer it shows the end of time: no copy is trusted.
///
/// If the server's clock is set back, by an operator or a failover, the cache drops all copies: while the
/// clock was ahead their records may have expired and been executed again.
///
/// The remaining error is within the cache's margin of a second, except in two rare cases until the
/// next answer: a failover to a server whose clock is further ahead, and a suspended machine.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use std::sync::Arc;
/// use semel_store::{CacheLimits, Cached, MemoryStore, ServerClock};
///
/// let store = Arc::new(MemoryStore::new()); // one on a server, rather
/// let clock = ServerClock::follow(&store);
/// let store = Cached::new(store, clock, CacheLimits::default());
/// # drop(store);
/// # });
/// ```
#[derive(Debug)]
pub struct ServerClock {
    since: Instant,
    /// What the server's clock showed at `since`, in milliseconds.
    then: AtomicU64,
    /// The part of that which comes from running fast, in milliseconds.
    sped_up: AtomicU64,
    set_backs: AtomicU64,
}

/// A step back by more than this, and by what the clock ran fast, is more than a correction of latency.
const SET_BACK: Duration = Duration::from_secs(1);
/// The interval of health checks, which also return the server's time.
const POLL_EVERY: Duration = Duration::from_secs(5);
/// The same during an outage: so that the health check, and no user request, notices its end.
const RETRY_EVERY: Duration = Duration::from_secs(1);
/// The reading before the server's first answer.
const NOT_SET: u64 = u64::MAX;
/// The fraction (1/n) by which the clock runs fast while the server does not answer.
const FAST: u32 = 1_000;

// === impl ServerClock ===

impl ServerClock {
    /// A clock that follows the server's for as long as the store exists, by a task on the present
    /// runtime.
    ///
    /// Through a [`Guarded`](crate::Guarded) store these health checks also close an open breaker when
    /// there are no other calls.
    pub fn follow<S: Store>(store: &Arc<S>) -> Arc<Self> {
        let clock = Arc::new(Self::unset());
        tokio::spawn(follow(Arc::downgrade(store), clock.clone()));
        clock
    }

    /// A clock before the server's first answer.
    pub(crate) fn unset() -> Self {
        Self {
            since: Instant::now(),
            then: AtomicU64::new(NOT_SET),
            sped_up: AtomicU64::new(0),
            set_backs: AtomicU64::new(0),
        }
    }

    /// Sets the clock to `now`, the server's answer to a request of the moment `sent`.
    pub(crate) fn set(&self, now: Timestamp, sent: Instant) {
        let then = now.as_millis().saturating_sub(millis(sent.duration_since(self.since)));
        let sped_up = self.sped_up.swap(0, Ordering::Relaxed);
        let before = self.then.load(Ordering::Relaxed);
        let allowed = millis(SET_BACK).saturating_add(sped_up);
        if before != NOT_SET && then.saturating_add(allowed) < before {
            // First: a reader of the earlier time must also read the set-back.
            self.set_backs.fetch_add(1, Ordering::Release);
        }
        self.then.store(then, Ordering::Release);
    }

    /// Runs the clock ahead for a period without an answer.
    fn speed_up(&self, silence: Duration) {
        let ahead = millis(silence / FAST).max(1);
        self.sped_up.update(Ordering::Relaxed, Ordering::Relaxed, |sum| sum.saturating_add(ahead));
        self.then.update(Ordering::Relaxed, Ordering::Relaxed, |then| then.saturating_add(ahead));
    }
}

impl Clock for ServerClock {
    fn now(&self) -> Timestamp {
        let then = self.then.load(Ordering::Acquire);
        Timestamp::from_millis(then.saturating_add(millis(self.since.elapsed())))
    }

    fn set_backs(&self) -> u64 {
        self.set_backs.load(Ordering::Acquire)
    }
}

async fn follow<S: Store>(store: Weak<S>, clock: Arc<ServerClock>) {
    let (mut is_down, mut pause) = (false, POLL_EVERY);
    while let Some(store) = store.upgrade() {
        let sent = Instant::now();
        match store.health().await {
            Ok(health) => {
                clock.set(health.now, sent);
                if is_down {
                    tracing::info!("store health check recovered");
                }
                (is_down, pause) = (false, POLL_EVERY);
            }
            Err(error) => {
                clock.speed_up(pause + sent.elapsed());
                if !is_down {
                    tracing::warn!(%error, "store health check failed");
                }
                (is_down, pause) = (true, RETRY_EVERY);
            }
        }
        drop(store);
        sleep(pause).await;
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;
    use crate::{ManualClock, MemoryStore};

    const NOON: Timestamp = Timestamp::from_millis(1_700_000_000_000);

    #[tokio::test(start_paused = true)]
    async fn it_shows_the_end_of_time_before_the_first_answer() {
        let clock = ServerClock::unset();
        clock.speed_up(Duration::from_secs(5));
        assert_eq!(clock.now(), Timestamp::from_millis(u64::MAX));
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_never_behind_the_server() {
        let clock = ServerClock::unset();
        advance(Duration::from_secs(7)).await;
        let sent = Instant::now();
        // The server read its clock at some moment of these two seconds.
        advance(Duration::from_secs(2)).await;
        clock.set(NOON, sent);
        assert_eq!(clock.now(), NOON.plus(Duration::from_secs(2)));
        advance(Duration::from_secs(3)).await;
        assert_eq!(clock.now(), NOON.plus(Duration::from_secs(5)));
    }

    #[tokio::test(start_paused = true)]
    async fn it_runs_fast_during_an_outage_and_can_be_set_back() {
        let clock = ServerClock::unset();
        clock.set(NOON, Instant::now());
        clock.speed_up(Duration::from_secs(5));
        assert_eq!(clock.now(), NOON.plus(Duration::from_millis(5)));
        clock.set(NOON, Instant::now());
        assert_eq!(clock.now(), NOON);
        assert_eq!(clock.set_backs(), 0, "a correction");
    }

    /// The story: after an outage of more than a quarter of an hour the cache dropped all copies, though no clock had
    /// been set back.
    #[tokio::test(start_paused = true)]
    async fn it_is_not_set_back_by_having_run_fast() {
        let clock = ServerClock::unset();
        clock.set(NOON, Instant::now());
        clock.speed_up(Duration::from_hours(2));
        clock.set(NOON, Instant::now());
        assert_eq!((clock.now(), clock.set_backs()), (NOON, 0));
        clock.set(NOON.plus(Duration::from_mins(2)), Instant::now());
        clock.set(NOON, Instant::now());
        assert_eq!(clock.set_backs(), 1, "the earlier speed-up no longer counts");
    }

    #[tokio::test(start_paused = true)]
    async fn it_counts_the_set_backs_of_the_server() {
        let clock = ServerClock::unset();
        clock.set(NOON, Instant::now());
        clock.set(NOON.plus(Duration::from_mins(2)), Instant::now());
        assert_eq!(clock.set_backs(), 0);
        clock.set(NOON, Instant::now());
        assert_eq!(clock.set_backs(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn it_follows_the_server_until_the_store_is_gone() {
        let server = ManualClock::at(Timestamp::from_millis(5_000));
        let store = Arc::new(MemoryStore::with_clock(Arc::new(server.clone())));
        let clock = Arc::new(ServerClock::unset());
        let task = tokio::spawn(follow(Arc::downgrade(&store), clock.clone()));
        sleep(Duration::from_millis(1)).await;
        assert_eq!(clock.now().as_millis(), 5_001);
        // A failover to a server whose clock is ahead.
        server.advance(Duration::from_hours(1));
        sleep(POLL_EVERY).await;
        assert_eq!(clock.now().as_millis(), 3_605_001);
        drop(store);
        task.await.unwrap();
    }
}
