use semel_core::{Fence, OnAbandoned};

use tokio::time::Instant;

use super::*;
use crate::faulty::{Behaviour, FaultyStore, attempt, clock, completed, lease, request};
use crate::{ManualClock, ServerClock};

const SECOND: Duration = Duration::from_secs(1);

/// A cache in front of a store that counts, both on one clock.
struct Setup {
    inner: Arc<FaultyStore>,
    clock: ManualClock,
    cached: Cached<Arc<FaultyStore>>,
    policy: Policy,
}

fn setup(limits: CacheLimits) -> Setup {
    let clock = clock();
    let inner = FaultyStore::on(&clock);
    Setup {
        cached: Cached::new(Arc::clone(&inner), Arc::new(clock.clone()), limits),
        inner,
        clock,
        policy: policy(OnAbandoned::Reexecute),
    }
}

fn policy(on_abandoned: OnAbandoned) -> Policy {
    Policy::builder().lease(SECOND * 5).ttl(SECOND * 60).on_abandoned(on_abandoned).build().unwrap()
}

// === impl Setup ===

impl Setup {
    async fn claim(&self, attempt: &Attempt) -> Claim {
        self.cached.claim(attempt, &self.policy).await.unwrap()
    }

    /// Claims and settles through the cache; when the record expires.
    async fn settle(&self, key: &str, settlement: &Settlement) -> Timestamp {
        let lease = lease(&self.cached, &attempt(key, 1), &self.policy).await;
        let settled = self.cached.settle(&lease, settlement.clone()).await.unwrap();
        assert_eq!(settled, Settled::Recorded);
        self.inner.take_calls();
        lease.expires()
    }
}

#[tokio::test]
async fn a_record_settled_here_is_replayed_without_a_call() {
    let setup = setup(CacheLimits::default());
    let expected = Claim::Replay {
        expires: setup.settle("k", &completed("paid")).await,
        settlement: completed("paid"),
    };
    assert_eq!(setup.claim(&attempt("k", 2)).await, expected);
    assert_eq!(setup.inner.take_calls(), 0);
}

#[tokio::test]
async fn a_cached_claim_needs_no_call_and_a_miss_is_none() {
    let setup = setup(CacheLimits::default());
    let expires = setup.settle("k", &completed("paid")).await;
    let known = Some(Claim::Replay { expires, settlement: completed("paid") });
    assert_eq!(setup.cached.cached_claim(&attempt("k", 2)), known);
    assert_eq!(setup.cached.cached_claim(&request("k", 2, "another")), Some(Claim::Mismatch));
    assert_eq!(setup.cached.cached_claim(&attempt("other", 2)), None);
    setup.clock.advance(SECOND * 60);
    assert_eq!(setup.cached.cached_claim(&attempt("k", 2)), None);
    assert_eq!(setup.inner.take_calls(), 0);
}

#[tokio::test]
async fn a_record_settled_elsewhere_is_read_once() {
    let setup = setup(CacheLimits::default());
    let lease = lease(&setup.inner, &attempt("k", 1), &setup.policy).await;
    setup.inner.settle(&lease, completed("paid")).await.unwrap();
    setup.inner.take_calls();
    let first = setup.claim(&attempt("k", 2)).await;
    assert_eq!(setup.inner.take_calls(), 1);
    assert_eq!(setup.claim(&attempt("k", 3)).await, first);
    assert_eq!(setup.inner.take_calls(), 0);
}

#[tokio::test]
async fn replays_continue_while_the_store_is_down() {
    let setup = setup(CacheLimits::default());
    setup.settle("k", &completed("paid")).await;
    setup.inner.set_behaviour(Behaviour::Unavailable);
    let claim = setup.claim(&attempt("k", 2)).await;
    assert!(matches!(claim, Claim::Replay { .. }), "{claim:?}");
    let fresh = setup.cached.claim(&attempt("fresh", 1), &setup.policy).await;
    assert!(fresh.is_err(), "{fresh:?}");
}

#[tokio::test]
async fn a_mismatch_is_answered_without_a_call() {
    let setup = setup(CacheLimits::default());
    setup.settle("k", &completed("paid")).await;
    let other = request("k", 2, "pay 999");
    assert_eq!(setup.claim(&other).await, Claim::Mismatch);
    assert_eq!(setup.inner.take_calls(), 0);
}

#[tokio::test]
async fn unsettled_records_are_read_from_the_store_every_time() {
    let setup = setup(CacheLimits::default());
    let lease = lease(&setup.cached, &attempt("k", 1), &setup.policy).await;
    for how in [None, Some(Release::Hold)] {
        if let Some(how) = how {
            setup.cached.release(&lease, how).await.unwrap();
        }
        setup.inner.take_calls();
        for owner in 2..5 {
            setup.claim(&attempt("k", owner)).await;
        }
        assert_eq!(setup.inner.take_calls(), 3, "{how:?}");
    }
}

#[tokio::test]
async fn abandoned_work_settled_as_failed_is_cached() {
    let setup = setup(CacheLimits::default());
    let late = lease(&setup.cached, &attempt("k", 1), &setup.policy).await;
    setup.clock.advance(SECOND * 5);
    let (fail, attempt) = (policy(OnAbandoned::Fail), attempt("k", 2));
    let first = setup.cached.claim(&attempt, &fail).await.unwrap();
    let expected = Claim::Replay { settlement: Settlement::Abandoned, expires: late.expires() };
    assert_eq!(first, expected);
    setup.inner.take_calls();
    assert_eq!(setup.claim(&attempt).await, expected);
    assert_eq!(setup.inner.take_calls(), 0);
}

#[tokio::test]
async fn a_refused_settlement_is_not_cached() {
    let setup = setup(CacheLimits::default());
    let late = lease(&setup.cached, &attempt("k", 1), &setup.policy).await;
    setup.clock.advance(SECOND * 5);
    let _successor = lease(&setup.cached, &attempt("k", 2), &setup.policy).await;
    let refused = setup.cached.settle(&late, completed("stale")).await.unwrap();
    assert!(matches!(refused, Settled::Refused(_)));
    let claim = setup.claim(&attempt("k", 3)).await;
    assert!(matches!(claim, Claim::InFlight { .. }), "{claim:?}");
}

/// Trap 16: an expired record is not replayed, also not from a cache.
#[tokio::test]
async fn an_expired_record_is_never_replayed() {
    let setup = setup(CacheLimits::default());
    let expires = setup.settle("k", &completed("paid")).await;
    let nearly = SECOND + Duration::from_millis(1);
    let left = setup.clock.now().until(expires).saturating_sub(nearly);
    setup.clock.advance(left);
    setup.claim(&attempt("k", 2)).await;
    assert_eq!(setup.inner.take_calls(), 0);
    // Within the margin the claim goes to the store, which still replays.
    setup.clock.advance(Duration::from_millis(1));
    let claim = setup.claim(&attempt("k", 3)).await;
    assert!(matches!(claim, Claim::Replay { .. }), "{claim:?}");
    assert_eq!(setup.inner.take_calls(), 1);
    setup.clock.advance(SECOND);
    let claim = setup.claim(&attempt("k", 4)).await;
    assert!(matches!(claim, Claim::Execute(lease) if lease.fence() == Fence::FIRST));
}

/// Trap 18: a node whose clock lags by less than the margin does not replay a record that has expired by
/// the store's.
#[tokio::test]
async fn a_lagging_clock_does_not_prolong_a_record() {
    let store_clock = clock();
    let node_clock = ManualClock::at(Timestamp::from_millis(store_clock.now().as_millis() - 999));
    let inner = FaultyStore::on(&store_clock);
    let limits = CacheLimits::default();
    let cached = Cached::new(Arc::clone(&inner), Arc::new(node_clock.clone()), limits);
    let policy = policy(OnAbandoned::Reexecute);
    let lease = lease(&cached, &attempt("k", 1), &policy).await;
    cached.settle(&lease, completed("paid")).await.unwrap();
    for clock in [&store_clock, &node_clock] {
        clock.advance(SECOND * 60);
    }
    let claim = cached.claim(&attempt("k", 2), &policy).await.unwrap();
    assert!(matches!(claim, Claim::Execute(_)), "{claim:?}");
}

#[tokio::test]
async fn a_forgotten_record_is_read_from_the_store_again() {
    let setup = setup(CacheLimits::default());
    setup.settle("k", &completed("paid")).await;
    setup.cached.forget(attempt("k", 1).id());
    setup.claim(&attempt("k", 2)).await;
    assert_eq!(setup.inner.take_calls(), 1);
}

#[tokio::test]
async fn a_large_reply_is_not_cached() {
    let limits = CacheLimits { entry_bytes_max: 1_000, ..CacheLimits::default() };
    let setup = setup(limits);
    setup.settle("small", &completed(vec![7; 1_000])).await;
    setup.settle("large", &completed(vec![7; 1_001])).await;
    setup.claim(&attempt("small", 2)).await;
    assert_eq!(setup.inner.take_calls(), 0);
    setup.claim(&attempt("large", 2)).await;
    assert_eq!(setup.inner.take_calls(), 1);
}

/// Trap 25 (I10): the cache stays within its bytes after any number of settlements, and keeps serving.
#[tokio::test]
async fn the_cache_stays_within_its_bytes() {
    let limits = CacheLimits { bytes: 100_000, entry_bytes_max: 1_000, ..CacheLimits::default() };
    let setup = setup(limits);
    for number in 0..2_000 {
        setup.settle(&format!("k{number}"), &completed(vec![7; 1_000])).await;
        assert!(setup.cached.bytes() <= limits.bytes);
    }
    assert!(setup.cached.bytes() > limits.bytes / 2);
    setup.claim(&attempt("k1999", 2)).await;
    assert_eq!(setup.inner.take_calls(), 0);
}

/// A reply may be a slice of a network buffer; the cache must not keep the whole of it unweighed.
#[tokio::test]
async fn a_copy_does_not_keep_a_larger_buffer_alive() {
    let setup = setup(CacheLimits::default());
    let buffer = Bytes::from(vec![7; 1 << 20]);
    setup.settle("k", &completed(buffer.slice(10..20))).await;
    let Claim::Replay { settlement, .. } = setup.claim(&attempt("k", 2)).await else {
        panic!("expected Replay");
    };
    let bytes = settlement.reply().unwrap().bytes();
    assert_eq!(bytes, &buffer.slice(10..20));
    assert!(!buffer.as_ptr_range().contains(&bytes.as_ptr()));
}

/// While the server's clock was ahead, another node found the record expired and executed again. The
/// copy of its first life must not be trusted again when the clock is back (I4).
#[tokio::test(start_paused = true)]
async fn copies_are_dropped_when_the_clock_of_the_server_is_set_back() {
    let manual = clock();
    let (inner, server) = (FaultyStore::on(&manual), Arc::new(ServerClock::unset()));
    let cached = Cached::new(Arc::clone(&inner), server.clone(), CacheLimits::default());
    let policy = policy(OnAbandoned::Reexecute);
    let noon = manual.now();
    server.set(noon, Instant::now());
    let first = lease(&cached, &attempt("k", 1), &policy).await;
    cached.settle(&first, completed("first")).await.unwrap();
    assert!(cached.cached_claim(&attempt("k", 2)).is_some());
    manual.advance(SECOND * 120);
    server.set(manual.now(), Instant::now());
    let other = lease(&inner, &attempt("k", 3), &policy).await;
    inner.settle(&other, completed("second")).await.unwrap();
    server.set(noon, Instant::now());
    assert_eq!(cached.cached_claim(&attempt("k", 4)), None);
    let answer = cached.claim(&attempt("k", 4), &policy).await.unwrap();
    assert!(
        matches!(&answer, Claim::Replay { settlement, .. } if *settlement == completed("second")),
        "{answer:?}"
    );
    // And copies taken since are trusted.
    assert!(cached.cached_claim(&attempt("k", 5)).is_some());
}
