use std::task::Poll;

use semel_core::Fence;
use tokio::time::advance;

use std::sync::Arc;

use tokio::time::Instant;

use super::*;
use crate::StoreError;
use crate::unruly::{Mood, Unruly, attempt, clock, completed, lease};

const MILLISECOND: Duration = Duration::from_millis(1);

fn setup(guard: Guard) -> (Arc<Unruly>, Guarded<Arc<Unruly>>) {
    let inner = Unruly::on(&clock());
    (Arc::clone(&inner), Guarded::new(inner, guard))
}

/// The defaults, but for the number of failures.
fn opens_after(failures_to_open: u32) -> Guard {
    Guard { failures_to_open, ..Guard::default() }
}

async fn unavailable(guarded: &Guarded<Arc<Unruly>>) -> String {
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
    inner.turns(Mood::Silent);
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
    inner.turns(Mood::Slow(Guard::default().deadline / 2));
    assert!(guarded.health().await.is_ok());
}

/// Trap 13: a claim that took effect without an answer is repeated, and recognises itself.
#[tokio::test(start_paused = true)]
async fn a_claim_that_timed_out_may_be_repeated() {
    let (inner, guarded) = setup(Guard::default());
    let (attempt, policy) = (attempt("k", 1), Policy::default());
    inner.turns(Mood::ActsAndIsSilent);
    let error = guarded.claim(&attempt, &policy).await.unwrap_err();
    assert!(error.maybe_applied(), "{error}");
    inner.turns(Mood::Willing);
    let lease = lease(&guarded, &attempt, &policy).await;
    assert_eq!(lease.fence(), Fence::FIRST);
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_does_not_ask_the_store() {
    // Who is silent is waited for, twice as long as the breaker is open then: that counts for three.
    for (mood, calls) in [(Mood::Unavailable, 3), (Mood::TimedOut, 3), (Mood::Silent, 1)] {
        let (inner, guarded) = setup(opens_after(3));
        inner.turns(mood);
        for _ in 0..calls {
            assert_eq!(guarded.state(), BreakerState::Closed);
            assert!(guarded.health().await.is_err());
        }
        assert_eq!(guarded.state(), BreakerState::Open);
        assert_eq!(inner.asked(), calls);
        let begun = Instant::now();
        let what = unavailable(&guarded).await;
        assert!(what.contains("breaker is open"), "{what}");
        assert!(what.contains("health") || what.contains("out of order"), "{what}");
        assert_eq!((inner.asked(), begun.elapsed()), (0, Duration::ZERO));
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_back_is_found_by_one_probe() {
    let (inner, guarded) = setup(opens_after(1));
    inner.turns(Mood::Unavailable);
    unavailable(&guarded).await;
    advance(Guard::default().open_for).await;
    inner.turns(Mood::Slow(MILLISECOND));
    inner.asked();
    let mut probe = guarded.health();
    assert!(begin(&mut probe).is_pending());
    assert_eq!(guarded.state(), BreakerState::HalfOpen);
    unavailable(&guarded).await;
    assert_eq!(inner.asked(), 1);
    assert!(probe.await.is_ok());
    assert_eq!(guarded.state(), BreakerState::Closed);
    assert!(guarded.health().await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_still_down_is_left_alone_again() {
    let (inner, guarded) = setup(opens_after(1));
    inner.turns(Mood::Unavailable);
    unavailable(&guarded).await;
    advance(Guard::default().open_for).await;
    unavailable(&guarded).await;
    assert_eq!((inner.asked(), guarded.state()), (2, BreakerState::Open));
    advance(Guard::default().open_for / 2).await;
    unavailable(&guarded).await;
    assert_eq!(inner.asked(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_probe_does_not_wedge_the_breaker() {
    let (inner, guarded) = setup(opens_after(1));
    inner.turns(Mood::Unavailable);
    unavailable(&guarded).await;
    advance(Guard::default().open_for).await;
    inner.turns(Mood::Silent);
    let mut probe = guarded.health();
    assert!(begin(&mut probe).is_pending());
    drop(probe);
    inner.turns(Mood::Willing);
    assert!(guarded.health().await.is_ok());
    assert_eq!(guarded.state(), BreakerState::Closed);
}

#[tokio::test(start_paused = true)]
async fn errors_that_are_answers_do_not_open_the_breaker() {
    let (inner, guarded) = setup(opens_after(1));
    for mood in [Mood::Corrupt, Mood::Misconfigured, Mood::Declined] {
        inner.turns(mood);
        let error = guarded.health().await.unwrap_err();
        assert!(!error.is_outage(), "{error}");
        assert_eq!(guarded.state(), BreakerState::Closed);
    }
}

/// Two servers of which one is away. The story: one breaker for all masters of a cluster refused the keys
/// of those that were well.
#[derive(Debug)]
struct Halves(Arc<Unruly>, Arc<Unruly>);

impl Halves {
    fn of(&self, id: RecordId) -> &Unruly {
        if self.part(id) == 1 { &self.0 } else { &self.1 }
    }
}

impl Store for Halves {
    fn claim<'a>(&'a self, attempt: &'a Attempt, policy: &'a Policy) -> StoreFuture<'a, Claim> {
        self.of(attempt.id()).claim(attempt, policy)
    }

    fn part(&self, id: RecordId) -> usize {
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
async fn a_part_that_is_away_does_not_take_the_others_along() {
    let clock = clock();
    let (well, away) = (Unruly::on(&clock), Unruly::on(&clock));
    away.turns(Mood::Unavailable);
    let guarded = Guarded::new(Halves(Arc::clone(&well), Arc::clone(&away)), opens_after(3));
    let id = |number: u8| RecordId::from_bytes([number; 32]);
    for _ in 0..10 {
        assert!(guarded.inspect(id(1)).await.is_err());
        assert!(guarded.inspect(id(2)).await.is_ok());
        assert!(guarded.health().await.is_err());
    }
    // The last of what was asked of it were for its own part, and for the store as a whole.
    assert_eq!((away.asked(), guarded.state()), (6, BreakerState::Open));
    assert!(guarded.inspect(id(2)).await.is_ok());
    away.turns(Mood::Willing);
    advance(Guard::default().open_for).await;
    assert!(guarded.inspect(id(1)).await.is_ok());
    assert!(guarded.health().await.is_ok());
    assert_eq!(guarded.state(), BreakerState::Closed);
}

/// The story: each look at the health of all put off the next probe of each part, and one that was back was
/// refused for as long as another was away.
#[tokio::test(start_paused = true)]
async fn a_part_that_is_back_is_found_while_another_is_away() {
    let clock = clock();
    let (back, away) = (Unruly::on(&clock), Unruly::on(&clock));
    back.turns(Mood::Unavailable);
    away.turns(Mood::Unavailable);
    let guarded = Guarded::new(Halves(Arc::clone(&back), Arc::clone(&away)), opens_after(1));
    let id = |number: u8| RecordId::from_bytes([number; 32]);
    let open_for = Guard::default().open_for;
    for _ in 0..3 {
        assert!(guarded.inspect(id(2)).await.is_err());
        advance(open_for * 16).await;
    }
    assert!(guarded.inspect(id(2)).await.is_err());
    back.turns(Mood::Willing);
    // Whoever watches looks all the time.
    for _ in 0..16 {
        advance(open_for).await;
        assert!(guarded.health().await.is_err());
    }
    assert!(guarded.inspect(id(2)).await.is_ok());
}

/// All servers are frozen: who waited for one need not wait for five of each.
#[tokio::test(start_paused = true)]
async fn where_one_part_is_away_another_is_given_up_sooner() {
    let clock = clock();
    let (one, other) = (Unruly::on(&clock), Unruly::on(&clock));
    one.turns(Mood::Unavailable);
    other.turns(Mood::Silent);
    let guarded = Guarded::new(Halves(Arc::clone(&one), Arc::clone(&other)), opens_after(5));
    let id = |number: u8| RecordId::from_bytes([number; 32]);
    for _ in 0..5 {
        assert!(guarded.inspect(id(2)).await.is_err());
    }
    assert!(guarded.inspect(id(1)).await.is_err());
    other.asked();
    assert!(guarded.inspect(id(1)).await.is_err());
    assert_eq!(other.asked(), 0);
}

/// I10, trap 25: calls do not pile up behind a slow store.
#[tokio::test(start_paused = true)]
async fn calls_beyond_the_limit_fail_at_once() {
    let guard = Guard { calls_max: 2, ..opens_after(1) };
    let (inner, guarded) = setup(guard);
    inner.turns(Mood::Slow(MILLISECOND));
    let (mut one, mut two) = (guarded.health(), guarded.health());
    assert!(begin(&mut one).is_pending());
    assert!(begin(&mut two).is_pending());
    let what = unavailable(&guarded).await;
    assert!(what.contains("2 calls"), "{what}");
    assert_eq!((inner.asked(), guarded.state()), (2, BreakerState::Closed));
    assert!(one.await.is_ok() && two.await.is_ok());
    assert!(guarded.health().await.is_ok());
}

// --- holders first ---

/// A store that is away, and a holder that could not settle.
async fn outage_with_a_holder() -> (Arc<Unruly>, Guarded<Arc<Unruly>>, Lease) {
    let (inner, guarded) = setup(opens_after(1));
    let lease = lease(&guarded, &attempt("k", 1), &Policy::default()).await;
    inner.turns(Mood::Unavailable);
    assert!(guarded.settle(&lease, completed("paid")).await.is_err());
    assert_eq!(guarded.state(), BreakerState::Open);
    inner.turns(Mood::Willing);
    inner.asked();
    (inner, guarded, lease)
}

/// The story: the retry of a request found that the store was back, and was granted the lease that its holder was
/// about to settle.
#[tokio::test(start_paused = true)]
async fn no_claim_finds_out_that_the_store_is_back_before_the_holders() {
    let (inner, guarded, lease) = outage_with_a_holder().await;
    let (other, policy) = (attempt("other", 2), Policy::default());
    advance(Guard::default().open_for).await;
    assert!(guarded.claim(&other, &policy).await.is_err());
    assert_eq!(inner.asked(), 0);
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
    assert!(guarded.inspect(lease.id()).await.is_ok(), "only claims stand back");
    let back = Instant::now();
    assert_eq!(guarded.settle(&lease, completed("paid")).await.unwrap(), Settled::Recorded);
    assert!(matches!(claim.await, Ok(Claim::Execute(_))));
    assert_eq!(back.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn claims_do_not_wait_for_long() {
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
struct Poisoned(Arc<Unruly>);

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

/// The story: for as long as its holder tried, which is up to the ttl, all other claims were refused.
#[tokio::test(start_paused = true)]
async fn a_holder_that_always_fails_delays_claims_by_seconds() {
    let guarded = Guarded::new(Poisoned(Unruly::on(&clock())), opens_after(1));
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

/// The story: the breaker opened and closed again while claims stood back, and each of them spun until the first
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
    // Away and back again, within the second.
    inner.turns(Mood::Unavailable);
    assert!(guarded.settle(&lease, completed("paid")).await.is_err());
    inner.turns(Mood::Willing);
    advance(Duration::from_millis(900)).await;
    let part = Duration::from_millis(100);
    advance(part).await;
    assert!(guarded.health().await.is_ok());
    let waited = tokio::time::timeout(Duration::from_secs(10), claim).await.expect("it spins");
    assert!(matches!(waited, Ok(Claim::Execute(_))), "{waited:?}");
    assert!(back.elapsed() <= Duration::from_secs(1) + MILLISECOND, "{:?}", back.elapsed());
}

/// The caller of a claim waits for it a little longer than its deadline, and for no second more.
#[tokio::test(start_paused = true)]
async fn what_a_claim_stood_back_counts_for_its_deadline() {
    let (inner, guarded, _) = outage_with_a_holder().await;
    advance(Guard::default().open_for).await;
    assert!(guarded.health().await.is_ok());
    inner.turns(Mood::Silent);
    let (other, policy) = (attempt("other", 2), Policy::default());
    assert_times_out(guarded.claim(&other, &policy)).await;
}

#[tokio::test(start_paused = true)]
async fn claims_that_wait_for_holders_are_bounded() {
    let guard = Guard { calls_max: 2, ..opens_after(1) };
    let (inner, guarded) = setup(guard);
    let policy = Policy::default();
    let lease = lease(&guarded, &attempt("k", 1), &policy).await;
    inner.turns(Mood::Unavailable);
    assert!(guarded.settle(&lease, completed("paid")).await.is_err());
    inner.turns(Mood::Willing);
    advance(guard.open_for).await;
    assert!(guarded.health().await.is_ok());
    let others = [attempt("a", 2), attempt("b", 3), attempt("c", 4)];
    let mut claims: Vec<_> = others.iter().map(|other| guarded.claim(other, &policy)).collect();
    assert!(begin(&mut claims[0]).is_pending() && begin(&mut claims[1]).is_pending());
    let Poll::Ready(Err(error)) = begin(&mut claims[2]) else { panic!("it waits, too") };
    assert!(error.to_string().contains("2 claims wait"), "{error}");
}

/// Slow claims take all places, and what is done can be recorded all the same.
#[tokio::test(start_paused = true)]
async fn holders_have_places_of_their_own() {
    let (inner, guarded) = setup(Guard { calls_max: 2, ..opens_after(1) });
    let policy = Policy::default();
    let lease = lease(&guarded, &attempt("k", 1), &policy).await;
    inner.turns(Mood::Slow(MILLISECOND));
    let others = [attempt("a", 2), attempt("b", 3)];
    let mut claims: Vec<_> = others.iter().map(|other| guarded.claim(other, &policy)).collect();
    assert!(claims.iter_mut().all(|claim| begin(claim).is_pending()));
    assert!(guarded.inspect(lease.id()).await.is_err());
    assert_eq!(guarded.settle(&lease, completed("paid")).await.unwrap(), Settled::Recorded);
}

/// One failure is no outage.
#[tokio::test(start_paused = true)]
async fn claims_do_not_wait_for_a_holder_that_failed_once() {
    let (inner, guarded) = setup(opens_after(2));
    let lease = lease(&guarded, &attempt("k", 1), &Policy::default()).await;
    inner.turns(Mood::Unavailable);
    assert!(guarded.renew(&lease, MILLISECOND).await.is_err());
    inner.turns(Mood::Willing);
    let (other, policy) = (attempt("other", 2), Policy::default());
    assert!(begin(&mut guarded.claim(&other, &policy)).is_ready());
}

/// Lets a verb begin.
fn begin<T>(verb: &mut StoreFuture<'_, T>) -> Poll<Result<T, StoreError>> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    verb.as_mut().poll(&mut context)
}
