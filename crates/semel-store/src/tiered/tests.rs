use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::faulty::{FaultyStore, attempt, clock, completed, lease, request};
use crate::{ManualClock, StoreError};

/// A replay cache in a map, which may be lost, silent or unavailable.
#[derive(Debug, Default)]
struct Copies {
    map: Mutex<HashMap<RecordId, SettledCopy>>,
    behaviour: Mutex<Behaviour>,
    notified: AtomicUsize,
    calls: AtomicUsize,
}

#[derive(Clone, Copy, Debug, Default)]
enum Behaviour {
    #[default]
    Normal,
    Unavailable,
    Silent,
    /// Refuses further copies.
    Full,
}

impl Copies {
    fn answer_as_scripted<T: Send + 'static>(&self, answer: T, writes: bool) -> StoreFuture<'_, T> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let behaviour = *self.behaviour.lock().unwrap();
        Box::pin(async move {
            match behaviour {
                Behaviour::Full if writes => Err(StoreError::unavailable("full")),
                Behaviour::Normal | Behaviour::Full => Ok(answer),
                Behaviour::Unavailable => Err(StoreError::unavailable("gone")),
                Behaviour::Silent => std::future::pending().await,
            }
        })
    }
}

impl ReplayCache for Copies {
    fn get(&self, id: RecordId) -> StoreFuture<'_, Option<SettledCopy>> {
        self.answer_as_scripted(self.map.lock().unwrap().get(&id).cloned(), false)
    }

    fn put(&self, id: RecordId, copy: SettledCopy) -> StoreFuture<'_, ()> {
        let is_full = matches!(*self.behaviour.lock().unwrap(), Behaviour::Full);
        if !is_full {
            self.map.lock().unwrap().insert(id, copy);
        }
        self.answer_as_scripted((), true)
    }

    fn watch(&self, _id: RecordId) -> Option<Watch> {
        Some(Watch::new(
            tokio::sync::watch::Sender::new(crate::WatchState::default()).subscribe(),
            (),
        ))
    }

    fn notify(&self, _id: RecordId) -> StoreFuture<'_, ()> {
        self.notified.fetch_add(1, Ordering::Relaxed);
        self.answer_as_scripted((), true)
    }
}

/// A replay cache in front of a primary that counts calls, both on one clock.
struct Setup {
    primary: Arc<FaultyStore>,
    clock: ManualClock,
    tiered: Tiered<Copies, Arc<FaultyStore>>,
    policy: Policy,
}

fn setup() -> Setup {
    let clock = clock();
    let primary = FaultyStore::on(&clock);
    let tiered = Tiered::new(Copies::default(), primary.clone(), Arc::new(clock.clone()));
    Setup { primary, clock, tiered, policy: Policy::default() }
}

impl Setup {
    async fn claim(&self, attempt: &Attempt) -> Claim {
        self.tiered.claim(attempt, &self.policy).await.unwrap()
    }

    /// Claims and settles, and waits for the copy.
    async fn settle(&self, key: &str) -> Claim {
        let lease = lease(&self.tiered, &attempt(key, 1), &self.policy).await;
        let settled = self.tiered.settle(&lease, completed("paid")).await.unwrap();
        assert_eq!(settled, Settled::Recorded);
        self.copied().await;
        self.primary.take_calls();
        Claim::Replay { settlement: completed("paid"), expires: lease.expires() }
    }

    /// Waits for the writes in the background.
    async fn copied(&self) {
        let all = u32::try_from(COPYING_MAX).unwrap();
        drop(self.tiered.copying.acquire_many(all).await.unwrap());
    }

    fn cache(&self, behaviour: Behaviour) {
        *self.tiered.cache.behaviour.lock().unwrap() = behaviour;
    }

    fn flush(&self) {
        self.tiered.cache.map.lock().unwrap().clear();
    }
}

#[tokio::test]
async fn settled_records_are_replayed_from_the_cache() {
    let setup = setup();
    let expected = setup.settle("k").await;
    assert_eq!(setup.claim(&attempt("k", 2)).await, expected);
    assert_eq!(setup.claim(&request("k", 3, "another body")).await, Claim::Mismatch);
    assert_eq!(setup.primary.take_calls(), 0);
}

/// Nothing that can still change is copied.
#[tokio::test]
async fn unsettled_records_are_read_from_the_primary() {
    let setup = setup();
    let held = lease(&setup.tiered, &attempt("k", 1), &setup.policy).await;
    setup.primary.take_calls();
    assert!(matches!(setup.claim(&attempt("k", 2)).await, Claim::InFlight { .. }));
    assert_eq!(setup.primary.take_calls(), 1);
    setup.tiered.release(&held, Release::Retry).await.unwrap();
    setup.copied().await;
    assert_eq!(setup.tiered.cache.notified.load(Ordering::Relaxed), 1);
    assert!(setup.tiered.cache.map.lock().unwrap().is_empty());
    assert!(matches!(setup.claim(&attempt("k", 3)).await, Claim::Execute(_)));
}

/// The next replay restores a lost copy.
#[tokio::test]
async fn an_emptied_cache_costs_one_call_of_the_primary() {
    let setup = setup();
    let expected = setup.settle("k").await;
    setup.flush();
    assert_eq!(setup.claim(&attempt("k", 2)).await, expected);
    assert_eq!(setup.primary.take_calls(), 1);
    setup.copied().await;
    assert_eq!(setup.claim(&attempt("k", 3)).await, expected);
    assert_eq!(setup.primary.take_calls(), 0);
}

/// The breaker keeps calls from a cache that is unavailable or silent.
#[tokio::test(start_paused = true)]
async fn an_unavailable_cache_is_bypassed_and_used_again_when_back() {
    for behaviour in [Behaviour::Unavailable, Behaviour::Silent] {
        let setup = setup();
        let expected = setup.settle("k").await;
        setup.cache(behaviour);
        setup.tiered.cache.calls.store(0, Ordering::Relaxed);
        for number in 2..20 {
            assert_eq!(setup.claim(&attempt("k", number)).await, expected);
        }
        assert_eq!(setup.primary.take_calls(), 18);
        let calls = setup.tiered.cache.calls.load(Ordering::Relaxed);
        assert!(calls <= 6, "{behaviour:?}: {calls} calls");
        let first = lease(&setup.tiered, &attempt("new", 1), &setup.policy).await;
        setup.tiered.settle(&first, completed("paid")).await.unwrap();
        // The cache is used again when it is back.
        setup.cache(Behaviour::Normal);
        tokio::time::advance(CACHE_GUARD.open_for * 2).await;
        assert_eq!(setup.claim(&attempt("k", 30)).await, expected);
        setup.copied().await;
        setup.primary.take_calls();
        assert_eq!(setup.claim(&attempt("k", 31)).await, expected);
        assert_eq!(setup.primary.take_calls(), 0);
    }
}

/// The story: puts that a full Redis refused opened the breaker for reads, too.
#[tokio::test(start_paused = true)]
async fn a_full_cache_still_answers_with_the_copies_it_has() {
    let setup = setup();
    let expected = setup.settle("kept").await;
    setup.cache(Behaviour::Full);
    // Reads in between would close the breaker.
    let mut leases = Vec::new();
    for number in 0..20 {
        let attempt = attempt(&format!("refused-{number}"), 1);
        leases.push(lease(&setup.tiered, &attempt, &setup.policy).await);
    }
    for lease in &leases {
        setup.tiered.settle(lease, completed("paid")).await.unwrap();
    }
    setup.copied().await;
    setup.primary.take_calls();
    assert_eq!(setup.claim(&attempt("kept", 2)).await, expected);
    assert_eq!(setup.primary.take_calls(), 0);
    // Writes stop after a while.
    setup.tiered.cache.calls.store(0, Ordering::Relaxed);
    let held = lease(&setup.tiered, &attempt("last", 1), &setup.policy).await;
    setup.tiered.settle(&held, completed("paid")).await.unwrap();
    setup.copied().await;
    assert_eq!(setup.tiered.cache.calls.load(Ordering::Relaxed), 1, "more calls than one read");
}

#[tokio::test(start_paused = true)]
async fn cache_failures_are_logged_once_a_minute() {
    let log = LogLimiter::default();
    assert!(log.is_due(Access::Write));
    assert!(!log.is_due(Access::Write));
    assert!(log.is_due(Access::Read));
    tokio::time::advance(LOG_EVERY).await;
    assert!(log.is_due(Access::Write));
    assert!(!log.is_due(Access::Write));
}

/// Nodes that use the primary alone do not notify it.
#[tokio::test]
async fn its_watch_is_partial() {
    let setup = setup();
    let watch = setup.tiered.watch(attempt("k", 1).id()).expect("a watch");
    assert!(!watch.is_complete());
}

/// Trap 16: a copy does not outlive its record, with any clock of the cache.
#[tokio::test]
async fn a_copy_is_not_trusted_near_its_expiry() {
    let setup = setup();
    let Claim::Replay { expires, .. } = setup.settle("k").await else { panic!("no replay") };
    let now = setup.clock.now();
    setup.clock.advance(now.until(expires).saturating_sub(MARGIN));
    assert!(matches!(setup.claim(&attempt("k", 2)).await, Claim::Replay { .. }));
    assert_eq!(setup.primary.take_calls(), 1);
    setup.clock.advance(MARGIN);
    assert!(matches!(setup.claim(&attempt("k", 3)).await, Claim::Execute(_)));
}

/// A clock that can be set back.
#[derive(Debug)]
struct Settable(AtomicU64);

impl Clock for Settable {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// While the clock was ahead, the record had expired and may have been executed again.
#[tokio::test]
async fn a_copy_whose_record_had_expired_is_not_trusted_again() {
    let primary = FaultyStore::on(&clock());
    let now = Arc::new(Settable(AtomicU64::new(clock().now().as_millis())));
    let tiered = Tiered::new(Copies::default(), primary.clone(), now.clone());
    let setup = Setup { primary, clock: clock(), tiered, policy: Policy::default() };
    let expected = setup.settle("k").await;
    let Claim::Replay { expires, .. } = expected else { panic!("no replay") };
    let before = now.0.swap(expires.as_millis(), Ordering::Relaxed);
    setup.claim(&attempt("k", 2)).await;
    assert_eq!(setup.primary.take_calls(), 1);
    now.0.store(before, Ordering::Relaxed);
    assert_eq!(setup.claim(&attempt("k", 3)).await, expected);
    assert_eq!(setup.primary.take_calls(), 1, "the copy was trusted");
    // A record that expires later had never expired.
    now.0.fetch_add(1_000, Ordering::Relaxed);
    let later = Policy::builder().ttl(setup.policy.ttl() * 2).build().unwrap();
    let lease = lease(&setup.tiered, &attempt("later", 1), &later).await;
    setup.tiered.settle(&lease, completed("paid")).await.unwrap();
    setup.copied().await;
    setup.primary.take_calls();
    assert!(matches!(setup.claim(&attempt("later", 2)).await, Claim::Replay { .. }));
    assert_eq!(setup.primary.take_calls(), 0);
}
