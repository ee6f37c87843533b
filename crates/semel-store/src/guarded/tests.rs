mod not_asked;

use std::task::Poll;

use semel_core::Fence;
use tokio::time::advance;

use std::sync::Arc;

use tokio::time::Instant;

use super::*;
use crate::StoreError;
use crate::faulty::{Behaviour, FaultyStore, attempt, clock, completed, lease};

const MILLISECOND: Duration = Duration::from_millis(1);

fn setup(guard: Guard) -> (Arc<FaultyStore>, Guarded<Arc<FaultyStore>>) {
    let inner = FaultyStore::on(&clock());
    (Arc::clone(&inner), Guarded::new(inner, guard))
}

/// The defaults, but for the number of failures.
fn opens_after(failures_to_open: u32) -> Guard {
    Guard { failures_to_open, ..Guard::default() }
}

async fn unavailable(guarded: &Guarded<Arc<FaultyStore>>) -> String {
    match guarded.health().await {
        Err(StoreError::Unavailable { what, .. }) => what,
        other => panic!("expected Unavailable, got {other:?}"),
    }
}

/// Must fail at its deadline, neither before nor after.
async fn assert_times_out<T: std::fmt::Debug>(verb: StoreFuture<'_, T>) {
    let begun = Instant::now();
    let error = verb.await.unwrap_err();
    assert!(error.maybe_applied(), "{error}");
    // A timer may be a millisecond late.
    let late = begun.elapsed().checked_sub(Guard::default().deadline);
    assert!(late.is_some_and(|late| late <= MILLISECOND), "{late:?}");
}

/// Trap 14: a store that hangs does not hang its callers.
#[tokio::test(start_paused = true)]
async fn every_verb_has_a_deadline() {
    let (inner, guarded) = setup(opens_after(100));
    let (attempt, policy) = (attempt("k", 1), Policy::default());
    let lease = lease(&guarded, &attempt, &policy).await;
    inner.set_behaviour(Behaviour::Silent);
    assert_times_out(guarded.claim(&attempt, &policy)).await;
    assert_times_out(guarded.renew(&lease, MILLISECOND)).await;
    assert_times_out(guarded.settle(&lease, completed("paid"))).await;
    assert_times_out(guarded.release(&lease, Release::Retry)).await;
    assert_times_out(guarded.inspect(lease.id())).await;
    assert_times_out(guarded.sweep(1)).await;
    assert_times_out(guarded.health()).await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_answer_within_the_deadline_counts() {
    let (inner, guarded) = setup(Guard::default());
    inner.set_behaviour(Behaviour::Slow(Guard::default().deadline / 2));
    assert!(guarded.health().await.is_ok());
}

/// Trap 13: a claim that took effect without an answer is repeated, and recognises itself.
#[tokio::test(start_paused = true)]
async fn a_claim_that_timed_out_may_be_repeated() {
    let (inner, guarded) = setup(Guard::default());
    let (attempt, policy) = (attempt("k", 1), Policy::default());
    inner.set_behaviour(Behaviour::AppliesSilently);
    let error = guarded.claim(&attempt, &policy).await.unwrap_err();
    assert!(error.maybe_applied(), "{error}");
    inner.set_behaviour(Behaviour::Normal);
    let lease = lease(&guarded, &attempt, &policy).await;
    assert_eq!(lease.fence(), Fence::FIRST);
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_does_not_call_the_store() {
    // A silent store is waited for, for twice the time that the breaker is open then: that counts for three.
    for (behaviour, calls) in
        [(Behaviour::Unavailable, 3), (Behaviour::TimedOut, 3), (Behaviour::Silent, 1)]
    {
        let (inner, guarded) = setup(opens_after(3));
        inner.set_behaviour(behaviour);
        for _ in 0..calls {
            assert_eq!(guarded.state(), BreakerState::Closed);
            assert!(guarded.health().await.is_err());
        }
        assert_eq!(guarded.state(), BreakerState::Open);
        assert_eq!(inner.take_calls(), calls);
        let begun = Instant::now();
        let what = unavailable(&guarded).await;
        assert!(what.contains("breaker is open"), "{what}");
        assert!(what.contains("health") || what.contains("out of order"), "{what}");
        assert_eq!((inner.take_calls(), begun.elapsed()), (0, Duration::ZERO));
    }
}

#[tokio::test(start_paused = true)]
async fn a_recovered_store_is_found_by_one_probe() {
    let (inner, guarded) = setup(opens_after(1));
    inner.set_behaviour(Behaviour::Unavailable);
    unavailable(&guarded).await;
    advance(Guard::default().open_for).await;
    inner.set_behaviour(Behaviour::Slow(MILLISECOND));
    inner.take_calls();
    let mut probe = guarded.health();
    assert!(begin(&mut probe).is_pending());
    assert_eq!(guarded.state(), BreakerState::HalfOpen);
    unavailable(&guarded).await;
    assert_eq!(inner.take_calls(), 1);
    assert!(probe.await.is_ok());
    assert_eq!(guarded.state(), BreakerState::Closed);
    assert!(guarded.health().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_failed_probe_reopens_the_breaker() {
    let (inner, guarded) = setup(opens_after(1));
    inner.set_behaviour(Behaviour::Unavailable);
    unavailable(&guarded).await;
    advance(Guard::default().open_for).await;
    unavailable(&guarded).await;
    assert_eq!((inner.take_calls(), guarded.state()), (2, BreakerState::Open));
    advance(Guard::default().open_for / 2).await;
    unavailable(&guarded).await;
    assert_eq!(inner.take_calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_probe_does_not_wedge_the_breaker() {
    let (inner, guarded) = setup(opens_after(1));
    inner.set_behaviour(Behaviour::Unavailable);
    unavailable(&guarded).await;
    advance(Guard::default().open_for).await;
    inner.set_behaviour(Behaviour::Silent);
    let mut probe = guarded.health();
    assert!(begin(&mut probe).is_pending());
    drop(probe);
    inner.set_behaviour(Behaviour::Normal);
    assert!(guarded.health().await.is_ok());
    assert_eq!(guarded.state(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn errors_that_are_answers_do_not_open_the_breaker() {
    let (inner, guarded) = setup(opens_after(1));
    for behaviour in [Behaviour::Corrupt, Behaviour::Misconfigured, Behaviour::Declined] {
        inner.set_behaviour(behaviour);
        let error = guarded.health().await.unwrap_err();
        assert!(!error.is_outage(), "{error}");
        assert_eq!(guarded.state(), BreakerState::Closed);
    }
}

/// Two servers of which one is down. The story: one breaker for all masters of a cluster refused the keys
/// of the healthy ones.
#[derive(Debug)]
struct Halves(Arc<FaultyStore>, Arc<FaultyStore>);

impl Halves {
    fn of(&self, id: RecordId) -> &FaultyStore {
        if self.shard(id) == 1 { &self.0 } else { &self.1 }
    }
}

impl Store for Halves {
    fn claim<'a>(&'a self, attempt: &'a Attempt, policy: &'a Policy) -> StoreFuture<'a, Claim> {
        self.of(attempt.id()).claim(attempt, policy)
    }

    fn shard(&self, id: RecordId) -> usize {
        1 + usize::from(id.as_bytes()[0] % 2)
    }

    fn renew<'a>(&'a self, lease: &'a Lease, duration: Duration) -> StoreFuture<'a, Renewed> {
        self.of(lease.id()).renew(lease, duration)
    }

    fn settle<'a>(&'a self, lease: &'a Lease, settlement: Settlement) -> StoreFuture<'a, Settled> {
        self.of(lease.id()).settle(lease, settlement)
    }

    fn release<'a>(&'a self, lease: &'a Lease, how: Release) -> StoreFuture<'a, Released> {
        self.of(lease.id()).release(lease, how)
    }

    fn inspect(&self, id: RecordId) -> StoreFuture<'_, Option<Record>> {
        self.of(id).inspect(id)
    }

    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        self.0.sweep(limit)
    }

    fn health(&self) -> StoreFuture<'_, Health> {
        Box::pin(async {
            self.0.health().await?;
            self.1.health().await
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_is_down_does_not_open_the_breakers_of_others() {
    let clock = clock();
    let (healthy, down) = (FaultyStore::on(&clock), FaultyStore::on(&clock));
    down.set_behaviour(Behaviour::Unavailable);
    let guarded = Guarded::new(Halves(Arc::clone(&healthy), Arc::clone(&down)), opens_after(3));
    let id = |number: u8| RecordId::from_bytes([number; 32]);
    for _ in 0..10 {
        assert!(guarded.inspect(id(1)).await.is_err());
        assert!(guarded.inspect(id(2)).await.is_ok());
        assert!(guarded.health().await.is_err());
    }
    // Three calls of its own shard, and three of the store as a whole.
    assert_eq!((down.take_calls(), guarded.state()), (6, BreakerState::Open));
    assert!(guarded.inspect(id(2)).await.is_ok());
    down.set_behaviour(Behaviour::Normal);
    advance(Guard::default().open_for).await;
    assert!(guarded.inspect(id(1)).await.is_ok());
    assert!(guarded.health().await.is_ok());
    assert_eq!(guarded.state(), BreakerState::Closed);
}

/// The story: each health check of the whole store postponed the next probe of each shard, and a recovered one was
/// refused for as long as another was down.
#[tokio::test(start_paused = true)]
async fn a_recovered_shard_is_probed_while_another_is_down() {
    let clock = clock();
    let (back, down) = (FaultyStore::on(&clock), FaultyStore::on(&clock));
    back.set_behaviour(Behaviour::Unavailable);
    down.set_behaviour(Behaviour::Unavailable);
    let guarded = Guarded::new(Halves(Arc::clone(&back), Arc::clone(&down)), opens_after(1));
    let id = |number: u8| RecordId::from_bytes([number; 32]);
    let open_for = Guard::default().open_for;
    for _ in 0..3 {
        assert!(guarded.inspect(id(2)).await.is_err());
        advance(open_for * 16).await;
    }
    assert!(guarded.inspect(id(2)).await.is_err());
    back.set_behaviour(Behaviour::Normal);
    // Health checks go on all the time.
    for _ in 0..16 {
        advance(open_for).await;
        assert!(guarded.health().await.is_err());
    }
    assert!(guarded.inspect(id(2)).await.is_ok());
}

/// All servers are frozen: slow failures of one shard open the breakers of others sooner.
#[tokio::test(start_paused = true)]
async fn one_slow_failure_opens_the_breaker_while_another_shard_is_down() {
    let clock = clock();
    let (one, other) = (FaultyStore::on(&clock), FaultyStore::on(&clock));
    one.set_behaviour(Behaviour::Unavailable);
    other.set_behaviour(Behaviour::Silent);
    let guarded = Guarded::new(Halves(Arc::clone(&one), Arc::clone(&other)), opens_after(5));
    let id = |number: u8| RecordId::from_bytes([number; 32]);
    for _ in 0..5 {
        assert!(guarded.inspect(id(2)).await.is_err());
    }
    assert!(guarded.inspect(id(1)).await.is_err());
    other.take_calls();
    assert!(guarded.inspect(id(1)).await.is_err());
    assert_eq!(other.take_calls(), 0);
}

// --- holders first ---

/// A store that is down, and a holder that could not settle.
async fn outage_with_a_holder() -> (Arc<FaultyStore>, Guarded<Arc<FaultyStore>>, Lease) {
    let (inner, guarded) = setup(opens_after(1));
    let lease = lease(&guarded, &attempt("k", 1), &Policy::default()).await;
    inner.set_behaviour(Behaviour::Unavailable);
    assert!(guarded.settle(&lease, completed("paid")).await.is_err());
    assert_eq!(guarded.state(), BreakerState::Open);
    inner.set_behaviour(Behaviour::Normal);
    inner.take_calls();
    (inner, guarded, lease)
}

/// The story: the retry of a request found that the store was back, and was granted the lease that its holder was
/// about to settle.
#[tokio::test(start_paused = true)]
async fn a_claim_is_not_the_probe_while_holders_retry() {
    let (inner, guarded, lease) = outage_with_a_holder().await;
    let (other, policy) = (attempt("other", 2), Policy::default());
    advance(Guard::default().open_for).await;
    assert!(guarded.claim(&other, &policy).await.is_err());
    assert_eq!(inner.take_calls(), 0);
    assert_eq!(guarded.settle(&lease, completed("paid")).await.unwrap(), Settled::Recorded);
    assert!(matches!(guarded.claim(&other, &policy).await, Ok(Claim::Execute(_))));
}

#[tokio::test(start_paused = true)]
async fn claims_wait_for_the_holders_once_the_store_is_back() {
    let (_, guarded, lease) = outage_with_a_holder().await;
    let (other, policy) = (attempt("other", 2), Policy::default());
    advance(Guard::default().open_for).await;
    assert!(guarded.health().await.is_ok());
    let mut claim = guarded.claim(&other, &policy);
    assert!(begin(&mut claim).is_pending());
    assert!(guarded.inspect(lease.id()).await.is_ok(), "only claims wait");
    let back = Instant::now();
    assert_eq!(guarded.settle(&lease, completed("paid")).await.unwrap(), Settled::Recorded);
    assert!(matches!(claim.await, Ok(Claim::Execute(_))));
    assert_eq!(back.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn claims_wait_for_holders_for_a_limited_time() {
    let (_, guarded, _) = outage_with_a_holder().await;
    advance(Guard::default().open_for).await;
    assert!(guarded.health().await.is_ok());
    let back = Instant::now();
    let claimed = guarded.claim(&attempt("other", 2), &Policy::default()).await;
    assert!(matches!(claimed, Ok(Claim::Execute(_))));
    assert!(back.elapsed() <= Duration::from_secs(1) + MILLISECOND);
}

/// A store of which one record can never be written by its holder.
#[derive(Debug)]
struct Poisoned(Arc<FaultyStore>);

impl Store for Poisoned {
    fn claim<'a>(&'a self, attempt: &'a Attempt, policy: &'a Policy) -> StoreFuture<'a, Claim> {
        self.0.claim(attempt, policy)
    }

    fn renew<'a>(&'a self, lease: &'a Lease, duration: Duration) -> StoreFuture<'a, Renewed> {
        self.0.renew(lease, duration)
    }

    fn settle<'a>(&'a self, _: &'a Lease, _: Settlement) -> StoreFuture<'a, Settled> {
        Box::pin(async { Err(StoreError::unavailable("a damaged page")) })
    }

    fn release<'a>(&'a self, lease: &'a Lease, how: Release) -> StoreFuture<'a, Released> {
        self.0.release(lease, how)
    }

    fn inspect(&self, id: RecordId) -> StoreFuture<'_, Option<Record>> {
        self.0.inspect(id)
    }

    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        self.0.sweep(limit)
    }

    fn health(&self) -> StoreFuture<'_, Health> {
        self.0.health()
    }
}

/// The story: for as long as its holder retried, which is up to the ttl, all other claims were refused.
#[tokio::test(start_paused = true)]
async fn a_holder_that_always_fails_delays_claims_by_seconds() {
    let guarded = Guarded::new(Poisoned(FaultyStore::on(&clock())), opens_after(1));
    let policy = Policy::default();
    let lease = lease(&guarded, &attempt("k", 1), &policy).await;
    assert!(guarded.settle(&lease, completed("paid")).await.is_err());
    let (began, mut refused) = (Instant::now(), 0);
    while guarded.claim(&attempt("other", 2), &policy).await.is_err() {
        refused += 1;
        assert!(began.elapsed() < Duration::from_secs(10), "claims are refused for ever");
        advance(Guard::default().open_for).await;
        assert!(guarded.settle(&lease, completed("paid")).await.is_err());
    }
    assert!(refused > 2, "holders go first");
    assert_eq!(guarded.state(), BreakerState::Closed);
}

/// The story: the breaker opened and closed again while claims waited, and each of them spun until the first
/// second was over.
#[tokio::test(start_paused = true)]
async fn claims_wait_once_also_if_the_store_goes_and_comes_back() {
    let (inner, guarded, lease) = outage_with_a_holder().await;
    let policy = Policy::default();
    advance(Guard::default().open_for).await;
    assert!(guarded.health().await.is_ok());
    let other = attempt("other", 2);
    let mut claim = guarded.claim(&other, &policy);
    assert!(begin(&mut claim).is_pending());
    let back = Instant::now();
    // Down and back again, within the second.
    inner.set_behaviour(Behaviour::Unavailable);
    assert!(guarded.settle(&lease, completed("paid")).await.is_err());
    inner.set_behaviour(Behaviour::Normal);
    advance(Duration::from_millis(900)).await;
    advance(Duration::from_millis(100)).await;
    assert!(guarded.health().await.is_ok());
    let waited = tokio::time::timeout(Duration::from_secs(10), claim).await.expect("it spins");
    assert!(matches!(waited, Ok(Claim::Execute(_))), "{waited:?}");
    assert!(back.elapsed() <= Duration::from_secs(1) + MILLISECOND, "{:?}", back.elapsed());
}

/// The caller of a claim waits for it a little longer than its deadline, and for no second more.
#[tokio::test(start_paused = true)]
async fn the_wait_for_holders_counts_towards_the_deadline_of_a_claim() {
    let (inner, guarded, _) = outage_with_a_holder().await;
    advance(Guard::default().open_for).await;
    assert!(guarded.health().await.is_ok());
    inner.set_behaviour(Behaviour::Silent);
    let (other, policy) = (attempt("other", 2), Policy::default());
    assert_times_out(guarded.claim(&other, &policy)).await;
}

#[tokio::test(start_paused = true)]
async fn claims_that_wait_for_holders_are_bounded() {
    let guard = Guard { calls_max: 2, ..opens_after(1) };
    let (inner, guarded) = setup(guard);
    let policy = Policy::default();
    let lease = lease(&guarded, &attempt("k", 1), &policy).await;
    inner.set_behaviour(Behaviour::Unavailable);
    assert!(guarded.settle(&lease, completed("paid")).await.is_err());
    inner.set_behaviour(Behaviour::Normal);
    advance(guard.open_for).await;
    assert!(guarded.health().await.is_ok());
    let others = [attempt("a", 2), attempt("b", 3), attempt("c", 4)];
    let mut claims: Vec<_> = others.iter().map(|other| guarded.claim(other, &policy)).collect();
    assert!(begin(&mut claims[0]).is_pending() && begin(&mut claims[1]).is_pending());
    let Poll::Ready(Err(error)) = begin(&mut claims[2]) else { panic!("it waits, too") };
    assert!(error.is_local() && error.to_string().contains("2 claims wait"), "{error}");
}

/// Slow claims take all permits, and outcomes can be recorded all the same.
#[tokio::test(start_paused = true)]
async fn holders_have_a_reserve_of_permits() {
    let (inner, guarded) = setup(Guard { calls_max: 2, ..opens_after(1) });
    let policy = Policy::default();
    let lease = lease(&guarded, &attempt("k", 1), &policy).await;
    inner.set_behaviour(Behaviour::Slow(MILLISECOND));
    let others = [attempt("a", 2), attempt("b", 3)];
    let mut claims: Vec<_> = others.iter().map(|other| guarded.claim(other, &policy)).collect();
    assert!(claims.iter_mut().all(|claim| begin(claim).is_pending()));
    assert!(guarded.inspect(lease.id()).await.is_err());
    assert_eq!(guarded.settle(&lease, completed("paid")).await.unwrap(), Settled::Recorded);
}

/// One failure is not an outage.
#[tokio::test(start_paused = true)]
async fn claims_do_not_wait_for_a_holder_that_failed_once() {
    let (inner, guarded) = setup(opens_after(2));
    let lease = lease(&guarded, &attempt("k", 1), &Policy::default()).await;
    inner.set_behaviour(Behaviour::Unavailable);
    assert!(guarded.renew(&lease, MILLISECOND).await.is_err());
    inner.set_behaviour(Behaviour::Normal);
    let (other, policy) = (attempt("other", 2), Policy::default());
    assert!(begin(&mut guarded.claim(&other, &policy)).is_ready());
}

/// Polls a verb once.
fn begin<T>(verb: &mut StoreFuture<'_, T>) -> Poll<Result<T, StoreError>> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    verb.as_mut().poll(&mut context)
}
