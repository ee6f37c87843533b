use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::unruly::{Unruly, attempt, clock, completed, lease, request};
use crate::{ManualClock, StoreError};

/// Copies in a map, which may be lost, frozen or away.
#[derive(Debug, Default)]
struct Copies {
    map: Mutex<HashMap<RecordId, SettledCopy>>,
    mood: Mutex<Mood>,
    told: AtomicUsize,
    asked: AtomicUsize,
}

#[derive(Clone, Copy, Debug, Default)]
enum Mood {
    #[default]
    Willing,
    Away,
    Silent,
    /// It takes no more copies.
    Full,
}

impl Copies {
    fn play<T: Send + 'static>(&self, answer: T, writes: bool) -> StoreFuture<'_, T> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let mood = *self.mood.lock().unwrap();
        Box::pin(async move {
            match mood {
                Mood::Full if writes => Err(StoreError::unavailable("full")),
                Mood::Willing | Mood::Full => Ok(answer),
                Mood::Away => Err(StoreError::unavailable("gone")),
                Mood::Silent => std::future::pending().await,
            }
        })
    }
}

impl Near for Copies {
    fn get(&self, id: RecordId) -> StoreFuture<'_, Option<SettledCopy>> {
        self.play(self.map.lock().unwrap().get(&id).cloned(), false)
    }

    fn put(&self, id: RecordId, copy: SettledCopy) -> StoreFuture<'_, ()> {
        let is_full = matches!(*self.mood.lock().unwrap(), Mood::Full);
        if !is_full {
            self.map.lock().unwrap().insert(id, copy);
        }
        self.play((), true)
    }

    fn watch(&self, _id: RecordId) -> Option<Watch> {
        Some(Watch::new(tokio::sync::watch::Sender::new(crate::Told::default()).subscribe(), ()))
    }

    fn tell(&self, _id: RecordId) -> StoreFuture<'_, ()> {
        self.told.fetch_add(1, Ordering::Relaxed);
        self.play((), true)
    }
}

/// A near store in front of one that counts, both on one clock.
struct Setup {
    truth: Arc<Unruly>,
    clock: ManualClock,
    tiered: Tiered<Copies, Arc<Unruly>>,
    policy: Policy,
}

fn setup() -> Setup {
    let clock = clock();
    let truth = Unruly::on(&clock);
    let tiered = Tiered::new(Copies::default(), truth.clone(), Arc::new(clock.clone()));
    Setup { truth, clock, tiered, policy: Policy::default() }
}

impl Setup {
    async fn claim(&self, attempt: &Attempt) -> Claim {
        self.tiered.claim(attempt, &self.policy).await.unwrap()
    }

    /// Claims and settles; the copy has arrived.
    async fn settle(&self, key: &str) -> Claim {
        let lease = lease(&self.tiered, &attempt(key, 1), &self.policy).await;
        let settled = self.tiered.settle(&lease, completed("paid")).await.unwrap();
        assert_eq!(settled, Settled::Recorded);
        self.copied().await;
        self.truth.asked();
        Claim::Replay { settlement: completed("paid"), expires: lease.expires() }
    }

    /// Waits for what is done apart.
    async fn copied(&self) {
        let all = u32::try_from(COPYING_MAX).unwrap();
        drop(self.tiered.copying.acquire_many(all).await.unwrap());
    }

    fn near(&self, mood: Mood) {
        *self.tiered.near.mood.lock().unwrap() = mood;
    }

    fn flush(&self) {
        self.tiered.near.map.lock().unwrap().clear();
    }
}

#[tokio::test]
async fn what_is_settled_is_replayed_from_near() {
    let setup = setup();
    let expected = setup.settle("k").await;
    assert_eq!(setup.claim(&attempt("k", 2)).await, expected);
    assert_eq!(setup.claim(&request("k", 3, "another body")).await, Claim::Mismatch);
    assert_eq!(setup.truth.asked(), 0);
}

/// Nothing that can still change is copied.
#[tokio::test]
async fn what_is_not_settled_is_asked_of_the_truth() {
    let setup = setup();
    let held = lease(&setup.tiered, &attempt("k", 1), &setup.policy).await;
    setup.truth.asked();
    assert!(matches!(setup.claim(&attempt("k", 2)).await, Claim::InFlight { .. }));
    assert_eq!(setup.truth.asked(), 1);
    setup.tiered.release(&held, Release::Retry).await.unwrap();
    setup.copied().await;
    assert_eq!(setup.tiered.near.told.load(Ordering::Relaxed), 1);
    assert!(setup.tiered.near.map.lock().unwrap().is_empty());
    assert!(matches!(setup.claim(&attempt("k", 3)).await, Claim::Execute(_)));
}

/// What was lost comes back with the next replay.
#[tokio::test]
async fn an_emptied_near_store_costs_a_question() {
    let setup = setup();
    let expected = setup.settle("k").await;
    setup.flush();
    assert_eq!(setup.claim(&attempt("k", 2)).await, expected);
    assert_eq!(setup.truth.asked(), 1);
    setup.copied().await;
    assert_eq!(setup.claim(&attempt("k", 3)).await, expected);
    assert_eq!(setup.truth.asked(), 0);
}

/// Away or frozen, it is asked a few times and then left alone.
#[tokio::test(start_paused = true)]
async fn without_its_near_store_it_is_the_truth() {
    for mood in [Mood::Away, Mood::Silent] {
        let setup = setup();
        let expected = setup.settle("k").await;
        setup.near(mood);
        setup.tiered.near.asked.store(0, Ordering::Relaxed);
        for number in 2..20 {
            assert_eq!(setup.claim(&attempt("k", number)).await, expected);
        }
        assert_eq!(setup.truth.asked(), 18);
        let asked = setup.tiered.near.asked.load(Ordering::Relaxed);
        assert!(asked <= 6, "{mood:?}: asked {asked} times");
        let first = lease(&setup.tiered, &attempt("new", 1), &setup.policy).await;
        setup.tiered.settle(&first, completed("paid")).await.unwrap();
        // And it is used again when it is back.
        setup.near(Mood::Willing);
        tokio::time::advance(NEAR_GUARD.open_for * 2).await;
        assert_eq!(setup.claim(&attempt("k", 30)).await, expected);
        setup.copied().await;
        setup.truth.asked();
        assert_eq!(setup.claim(&attempt("k", 31)).await, expected);
        assert_eq!(setup.truth.asked(), 0);
    }
}

/// A near store that takes no more copies still answers with those that it has. The story: puts that a full
/// Redis refused opened the breaker for looking, too.
#[tokio::test(start_paused = true)]
async fn a_full_near_store_still_answers_with_what_it_has() {
    let setup = setup();
    let expected = setup.settle("kept").await;
    setup.near(Mood::Full);
    // Looks between would tell that it is there.
    let mut leases = Vec::new();
    for number in 0..20 {
        let attempt = attempt(&format!("refused-{number}"), 1);
        leases.push(lease(&setup.tiered, &attempt, &setup.policy).await);
    }
    for lease in &leases {
        setup.tiered.settle(lease, completed("paid")).await.unwrap();
    }
    setup.copied().await;
    setup.truth.asked();
    assert_eq!(setup.claim(&attempt("kept", 2)).await, expected);
    assert_eq!(setup.truth.asked(), 0);
    // It is not asked for ever.
    setup.tiered.near.asked.store(0, Ordering::Relaxed);
    let held = lease(&setup.tiered, &attempt("last", 1), &setup.policy).await;
    setup.tiered.settle(&held, completed("paid")).await.unwrap();
    setup.copied().await;
    assert_eq!(setup.tiered.near.asked.load(Ordering::Relaxed), 1, "more than a look");
}

/// It is said that copies are refused, and not with each.
#[tokio::test(start_paused = true)]
async fn refusals_are_told_once_a_minute() {
    let complaints = Complaints::default();
    assert!(complaints.is_due(Use::Telling));
    assert!(!complaints.is_due(Use::Telling));
    assert!(complaints.is_due(Use::Looking));
    tokio::time::advance(COMPLAIN_EVERY).await;
    assert!(complaints.is_due(Use::Telling));
    assert!(!complaints.is_due(Use::Telling));
}

/// Nodes that have the truth alone tell nobody here.
#[tokio::test]
async fn its_watch_does_not_hear_all() {
    let setup = setup();
    let watch = setup.tiered.watch(attempt("k", 1).id()).expect("a watch");
    assert!(!watch.hears_all());
}

/// Trap 16: a copy does not outlive its record, whatever the near store thinks of the time.
#[tokio::test]
async fn a_copy_is_not_trusted_near_its_expiry() {
    let setup = setup();
    let Claim::Replay { expires, .. } = setup.settle("k").await else { panic!("no replay") };
    let now = setup.clock.now();
    setup.clock.advance(now.until(expires).saturating_sub(MARGIN));
    assert!(matches!(setup.claim(&attempt("k", 2)).await, Claim::Replay { .. }));
    assert_eq!(setup.truth.asked(), 1);
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

/// While the clock was ahead, the record had expired and may have been executed anew.
#[tokio::test]
async fn a_copy_whose_record_had_expired_is_not_trusted_again() {
    let truth = Unruly::on(&clock());
    let now = Arc::new(Settable(AtomicU64::new(clock().now().as_millis())));
    let tiered = Tiered::new(Copies::default(), truth.clone(), now.clone());
    let setup = Setup { truth, clock: clock(), tiered, policy: Policy::default() };
    let expected = setup.settle("k").await;
    let Claim::Replay { expires, .. } = expected else { panic!("no replay") };
    let before = now.0.swap(expires.as_millis(), Ordering::Relaxed);
    setup.claim(&attempt("k", 2)).await;
    assert_eq!(setup.truth.asked(), 1);
    now.0.store(before, Ordering::Relaxed);
    assert_eq!(setup.claim(&attempt("k", 3)).await, expected);
    assert_eq!(setup.truth.asked(), 1, "the copy was trusted");
    // What expires later was never gone.
    now.0.fetch_add(1_000, Ordering::Relaxed);
    let later = Policy::builder().ttl(setup.policy.ttl() * 2).build().unwrap();
    let lease = lease(&setup.tiered, &attempt("later", 1), &later).await;
    setup.tiered.settle(&lease, completed("paid")).await.unwrap();
    setup.copied().await;
    setup.truth.asked();
    assert!(matches!(setup.claim(&attempt("later", 2)).await, Claim::Replay { .. }));
    assert_eq!(setup.truth.asked(), 0);
}
