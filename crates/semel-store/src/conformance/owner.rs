//! A claim that is repeated after a time-out meets its own record and recognises itself (I3,
//! trap 13).

use std::time::Duration;

use semel_core::{Attempt, Claim, Fence, Release};

use super::Fixture;
use super::trial::{
    EVERY_POLICY, Trial, attempt, brief, brief_with, completed, id, in_flight, patient, repeated,
    replayed, request,
};

/// The repeat gets the same right, counted from now.
pub async fn repeated_claim_recognises_itself<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let first = attempt("k");
    let _lost = trial.lease_with(&first, &brief::<F>()).await;
    trial.pass(F::UNIT).await;
    let before = trial.now().await;
    let again = trial.lease_with(&repeated(&first), &brief::<F>()).await;
    assert_eq!(again.fence(), Fence::FIRST);
    assert_eq!(again.owner(), first.owner());
    trial.assert_counts_from(before, brief::<F>().lease(), again.until()).await;
    trial.assert_counts_from(before, brief::<F>().ttl(), again.expires()).await;
    assert_eq!(trial.record(id("k")).await.attempts(), 1);
}

/// A repeat with shorter durations shortens neither the lease nor the retention (I1).
pub async fn repeated_claim_never_shortens_the_lease<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let first = attempt("k");
    let lease = trial.lease(&first).await;
    let again = trial.lease_with(&repeated(&first), &brief::<F>()).await;
    assert_eq!(again.until(), lease.until());
    assert_eq!(again.expires(), lease.expires());
}

/// No other owner is taken for the holder.
pub async fn another_owner_is_not_recognised<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let first = attempt("k");
    let lease = trial.lease(&first).await;
    assert_eq!(in_flight(trial.claim(&attempt("k")).await), lease.until());
    let again = trial.lease(&repeated(&first)).await;
    assert_eq!(again.fence(), lease.fence());
}

/// Also after the lease ran out, as long as no other attempt replaced it, and under every policy: it has not
/// executed yet, so nothing is in doubt.
pub async fn repeated_claim_goes_on_after_its_lease_ran_out<F: Fixture>() {
    for on_abandoned in EVERY_POLICY {
        let trial = Trial::<F>::begin().await;
        let (first, policy) = (attempt("k"), brief_with::<F>(on_abandoned));
        let lost = trial.lease_with(&first, &policy).await;
        trial.abandon(&lost).await;
        let again = trial.lease_with(&repeated(&first), &policy).await;
        assert_eq!(again.fence(), Fence::FIRST, "{on_abandoned:?}");
        assert!(again.until() > lost.until(), "{on_abandoned:?}");
    }
}

/// A replaced holder waits like any other attempt.
pub async fn repeated_claim_after_takeover_is_in_flight<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let first = attempt("k");
    let lost = trial.lease_with(&first, &brief::<F>()).await;
    trial.abandon(&lost).await;
    let successor = trial.lease(&attempt("k")).await;
    let again = trial.claim_with(&repeated(&first), &patient()).await;
    assert_eq!(in_flight(again), successor.until());
}

/// A repeat that comes after its own settlement gets the outcome, not a second lease.
pub async fn repeated_claim_after_settle_is_replayed<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let first = attempt("k");
    let lease = trial.lease(&first).await;
    trial.record_outcome(&lease, &completed("paid")).await;
    let outcome = replayed(trial.claim(&repeated(&first)).await);
    assert_eq!(outcome, completed("paid"));
}

/// An owner that has released is never granted again, under any policy. An attempt releases as its
/// last act, so a claim of it that comes later is a copy that the network delayed, and a lease granted
/// to it would have no holder: a duplicate would wait for it to run out, and under `hold` the key
/// would be in doubt though nothing executes. Another attempt is granted at once.
pub async fn repeated_claim_after_release_is_granted_nothing<F: Fixture>() {
    for on_abandoned in EVERY_POLICY {
        let trial = Trial::<F>::begin().await;
        let (first, policy) = (attempt("k"), brief_with::<F>(on_abandoned));
        let lease = trial.lease_with(&first, &policy).await;
        trial.hand_back(&lease, Release::Retry).await;
        let released = trial.record(id("k")).await;
        let before = trial.now().await;
        let until = in_flight(trial.claim_with(&repeated(&first), &policy).await);
        trial.assert_counts_from(before, Duration::ZERO, until).await;
        assert_eq!(trial.record(id("k")).await, released, "{on_abandoned:?}");
        let next = trial.lease_with(&attempt("k"), &policy).await;
        assert_eq!(next.fence(), Fence::FIRST.next(), "{on_abandoned:?}");
    }
}

/// The fingerprint is compared first, also with an owner that has released (I8).
pub async fn released_owner_with_another_request_is_a_mismatch<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let first = attempt("k");
    let lease = trial.lease(&first).await;
    trial.hand_back(&lease, Release::Retry).await;
    let other = Attempt::new(first.id(), request("pay 999"), first.owner());
    assert_eq!(trial.claim(&other).await, Claim::Mismatch);
}

/// However often a claim was repeated, it is one right: what any of its leases writes counts.
pub async fn leases_of_a_repeated_claim_are_one<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let first = attempt("k");
    let lost = trial.lease(&first).await;
    let again = trial.lease(&repeated(&first)).await;
    trial.record_outcome(&lost, &completed("paid")).await;
    trial.record_outcome(&again, &completed("paid")).await;
    assert_eq!(replayed(trial.claim(&attempt("k")).await), completed("paid"));
}
