//! A holder that was replaced can write nothing (I3, trap 1).

use semel_core::{Fence, Lease, Refusal, Release, State};

use super::Fixture;
use super::trial::{Trial, attempt, brief, completed, failed, id, other_request, replayed};
use crate::{Released, Renewed, Settled};

/// Tries every write with a lease that must be refused, and must leave no trace.
async fn assert_powerless<F: Fixture>(trial: &Trial<F>, stale: &Lease, refusal: &Refusal) {
    let before = trial.inspect(stale.id()).await;
    let settled = trial.settle(stale, &completed("a stale outcome")).await;
    assert_eq!(settled, Settled::Refused(refusal.clone()));
    let renewed = trial.renew(stale, F::UNIT * 9).await;
    assert_eq!(renewed, Renewed::Refused(refusal.clone()));
    for how in [Release::Retry, Release::Hold] {
        let released = trial.release(stale, how).await;
        assert_eq!(released, Released::Refused(refusal.clone()));
    }
    assert_eq!(trial.inspect(stale.id()).await, before);
}

/// A record whose lease ran out and was taken over: the late holder and its successor.
async fn taken_over<F: Fixture>(trial: &Trial<F>) -> (Lease, Lease) {
    let late = trial.abandoned("k").await;
    let successor = trial.lease(&attempt("k")).await;
    (late, successor)
}

/// A late holder cannot overwrite its successor's work.
pub async fn stale_settle_is_refused<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let (late, successor) = taken_over(&trial).await;
    let before = trial.record(id("k")).await;
    let settled = trial.settle(&late, &completed("stale")).await;
    assert_eq!(settled, Settled::Refused(Refusal::Superseded));
    assert_eq!(trial.record(id("k")).await, before);
    trial.record_outcome(&successor, &completed("fresh")).await;
    assert_eq!(replayed(trial.claim(&attempt("k")).await), completed("fresh"));
}

/// A late holder cannot prolong its successor's lease, nor its own.
pub async fn stale_renewal_is_refused<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let (late, _successor) = taken_over(&trial).await;
    let before = trial.record(id("k")).await;
    let renewed = trial.renew(&late, F::UNIT).await;
    assert_eq!(renewed, Renewed::Refused(Refusal::Superseded));
    assert_eq!(trial.record(id("k")).await, before);
}

/// A late holder cannot hand back its successor's lease, which would let a third one in.
pub async fn stale_release_is_refused<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let (late, _successor) = taken_over(&trial).await;
    let before = trial.record(id("k")).await;
    for how in [Release::Retry, Release::Hold] {
        let released = trial.release(&late, how).await;
        assert_eq!(released, Released::Refused(Refusal::Superseded));
        assert_eq!(trial.record(id("k")).await, before);
    }
}

/// A holder that handed its lease back can write no more than one that lost it.
pub async fn released_holder_is_stale_after_the_next_claim<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let first = trial.lease(&attempt("k")).await;
    trial.hand_back(&first, Release::Retry).await;
    let second = trial.lease(&attempt("k")).await;
    assert_powerless(&trial, &first, &Refusal::Superseded).await;
    trial.hand_back(&second, Release::Retry).await;
    // The record is released again, but not by this lease.
    assert_powerless(&trial, &first, &Refusal::Superseded).await;
}

/// A fenced-off holder answers with the recorded outcome, never with its own (I4).
pub async fn stale_holder_gets_its_successors_outcome<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let (late, successor) = taken_over(&trial).await;
    trial.record_outcome(&successor, &failed("the successor's outcome")).await;
    let refusal = Refusal::Settled {
        settlement: failed("the successor's outcome"),
        expires: successor.expires(),
    };
    assert_powerless(&trial, &late, &refusal).await;
    // Also if it happens to have come to the same outcome: it did not record it.
    let same = trial.settle(&late, &failed("the successor's outcome")).await;
    assert_eq!(same, Settled::Refused(refusal));
}

/// A record that expired starts again at fence one. A holder from before has the same number, but
/// not the same owner.
pub async fn holder_from_an_earlier_life_is_refused<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let old = trial.lease_with(&attempt("k"), &brief::<F>()).await;
    trial.reach(old.expires()).await;
    let new = trial.lease(&attempt("k")).await;
    assert_eq!((old.fence(), new.fence()), (Fence::FIRST, Fence::FIRST));
    assert_powerless(&trial, &old, &Refusal::Superseded).await;
    trial.record_outcome(&new, &completed("paid")).await;
    let refusal = Refusal::Settled { settlement: completed("paid"), expires: new.expires() };
    assert_powerless(&trial, &old, &refusal).await;
}

/// A later life may belong to another request, whose outcome the old holder must not learn (I8).
pub async fn holder_of_another_request_finds_its_record_gone<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let old = trial.lease_with(&attempt("k"), &brief::<F>()).await;
    trial.reach(old.expires()).await;
    let new = trial.lease(&other_request("k")).await;
    assert_powerless(&trial, &old, &Refusal::Gone).await;
    trial.record_outcome(&new, &completed("not yours")).await;
    assert_powerless(&trial, &old, &Refusal::Gone).await;
}

/// Past its expiry a record is gone, swept or not and in any state.
pub async fn holder_of_an_expired_record_finds_it_gone<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let leased = trial.lease_with(&attempt("leased"), &brief::<F>()).await;
    let settled = trial.lease_with(&attempt("settled"), &brief::<F>()).await;
    let held = trial.lease_with(&attempt("held"), &brief::<F>()).await;
    trial.record_outcome(&settled, &completed("paid")).await;
    trial.hand_back(&held, Release::Hold).await;
    trial.reach(held.expires()).await;
    for old in [&leased, &settled, &held] {
        assert_powerless(&trial, old, &Refusal::Gone).await;
    }
}

/// Fences rise with every lease of a record, however the last one ended.
pub async fn fences_rise_with_every_lease<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let first = trial.lease_with(&attempt("k"), &brief::<F>()).await;
    trial.hand_back(&first, Release::Retry).await;
    let second = trial.lease_with(&attempt("k"), &brief::<F>()).await;
    trial.abandon(&second).await;
    let third = trial.lease(&attempt("k")).await;
    let fences = [first.fence(), second.fence(), third.fence()].map(Fence::get);
    assert_eq!(fences, [1, 2, 3]);
    trial.record_outcome(&third, &completed("paid")).await;
    let record = trial.record(id("k")).await;
    assert_eq!(record.fence.get(), 3);
    assert_eq!(record.state, State::Settled(completed("paid")));
}
