//! What time it is at the server, as far as this node can know without asking for every request.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use semel_core::Timestamp;
use tokio::time::{Instant, sleep};

use crate::{Clock, Store};

/// The clock of a store's server, carried on by this machine's monotonic clock since it was last heard:
/// for a [`Cached`](crate::Cached) store on a server.
///
/// Leases and expiry are decided by the server alone, by its own clock (trap 18). Only the cache needs
/// to know the time here: a copy of a settled record must not be replayed when the record has expired,
/// for by then another node may have executed anew under its key. This machine's own time of day
/// would not do, since it may be minutes behind the server's. So this clock is set by what the server
/// says, and errs on one side: it is never behind the server's clock, and rather a little ahead, which
/// only costs hits.
///
/// - What the server says is taken for the moment at which it was *asked*: the answer's way back
///   makes the clock early, never late.
/// - While the server cannot be heard the clock runs a thousandth fast, since two clocks may drift
///   apart by a good deal less.
/// - Before the server was heard it shows the end of time: nothing is trusted.
///
/// If the server's clock is set back, by an operator or a failover, the cache forgets all copies: while the
/// clock was ahead their records may have expired and been executed anew.
///
/// What is left is within the cache's margin of a second, but for two rare cases that last until the
/// server is asked again: it was replaced by one whose clock is further ahead, or this machine slept.
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
    /// How much of that is for running fast, in milliseconds.
    hastened: AtomicU64,
    set_backs: AtomicU64,
}

/// A step back by more than this, and by what the clock ran fast, is more than a correction of what was heard late.
const SET_BACK: Duration = Duration::from_secs(1);
/// How often the server is asked for its time, and whether it is there at all.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The same while it is away: so that users need not be those who find out that it is back.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// What is shown before the server was heard.
const UNHEARD: u64 = u64::MAX;
/// By which part the clock runs fast while the server cannot be heard.
const FAST: u32 = 1_000;

// === impl ServerClock ===

impl ServerClock {
    /// A clock that is set by the server's again and again, for as long as there is a store, by a
    /// task on the present runtime.
    ///
    /// Asked through a [`Guarded`](crate::Guarded) store, the server's health also is what closes an
    /// open breaker if nobody else asks.
    pub fn follow<S: Store>(store: &Arc<S>) -> Arc<Self> {
        let clock = Arc::new(Self::unset());
        tokio::spawn(follow(Arc::downgrade(store), clock.clone()));
        clock
    }

    /// A clock that has not heard the server.
    pub(crate) fn unset() -> Self {
        Self {
            since: Instant::now(),
            then: AtomicU64::new(UNHEARD),
            hastened: AtomicU64::new(0),
            set_backs: AtomicU64::new(0),
        }
    }

    /// The server, asked at `asked`, said that it is `now`.
    pub(crate) fn set(&self, now: Timestamp, asked: Instant) {
        let then = now.as_millis().saturating_sub(millis(asked.duration_since(self.since)));
        let hastened = self.hastened.swap(0, Ordering::Relaxed);
        let before = self.then.load(Ordering::Relaxed);
        let allowed = millis(SET_BACK).saturating_add(hastened);
        if before != UNHEARD && then.saturating_add(allowed) < before {
            // First: who sees the earlier time must know that it is one.
            self.set_backs.fetch_add(1, Ordering::Release);
        }
        self.then.store(then, Ordering::Release);
    }

    /// The server was not heard for so long.
    fn hasten(&self, unheard: Duration) {
        let ahead = millis(unheard / FAST).max(1);
        self.hastened.update(Ordering::Relaxed, Ordering::Relaxed, |sum| sum.saturating_add(ahead));
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
    let (mut is_away, mut pause) = (false, LOOK_EVERY);
    while let Some(store) = store.upgrade() {
        let asked = Instant::now();
        match store.health().await {
            Ok(health) => {
                clock.set(health.now, asked);
                if is_away {
                    tracing::info!("the store is back");
                }
                (is_away, pause) = (false, LOOK_EVERY);
            }
            Err(error) => {
                clock.hasten(pause + asked.elapsed());
                if !is_away {
                    tracing::warn!(%error, "the store is away");
                }
                (is_away, pause) = (true, LOOK_AGAIN);
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
    async fn nothing_is_trusted_before_the_server_was_heard() {
        let clock = ServerClock::unset();
        clock.hasten(Duration::from_secs(5));
        assert_eq!(clock.now(), Timestamp::from_millis(u64::MAX));
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_never_behind_the_server() {
        let clock = ServerClock::unset();
        advance(Duration::from_secs(7)).await;
        let asked = Instant::now();
        // The server looked at its clock somewhere on these two seconds' way.
        advance(Duration::from_secs(2)).await;
        clock.set(NOON, asked);
        assert_eq!(clock.now(), NOON.plus(Duration::from_secs(2)));
        advance(Duration::from_secs(3)).await;
        assert_eq!(clock.now(), NOON.plus(Duration::from_secs(5)));
    }

    #[tokio::test(start_paused = true)]
    async fn it_runs_fast_while_the_server_is_away_and_can_be_set_back() {
        let clock = ServerClock::unset();
        clock.set(NOON, Instant::now());
        clock.hasten(Duration::from_secs(5));
        assert_eq!(clock.now(), NOON.plus(Duration::from_millis(5)));
        clock.set(NOON, Instant::now());
        assert_eq!(clock.now(), NOON);
        assert_eq!(clock.set_backs(), 0, "a correction");
    }

    /// The story: after an outage of more than a quarter of an hour the cache forgot everything, though no clock had
    /// been set.
    #[tokio::test(start_paused = true)]
    async fn it_is_not_set_back_by_having_run_fast() {
        let clock = ServerClock::unset();
        clock.set(NOON, Instant::now());
        clock.hasten(Duration::from_hours(2));
        clock.set(NOON, Instant::now());
        assert_eq!((clock.now(), clock.set_backs()), (NOON, 0));
        clock.set(NOON.plus(Duration::from_mins(2)), Instant::now());
        clock.set(NOON, Instant::now());
        assert_eq!(clock.set_backs(), 1, "what it ran fast before counts no more");
    }

    #[tokio::test(start_paused = true)]
    async fn it_counts_how_often_the_server_is_set_back() {
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
        sleep(LOOK_EVERY).await;
        assert_eq!(clock.now().as_millis(), 3_605_001);
        drop(store);
        task.await.unwrap();
    }
}
