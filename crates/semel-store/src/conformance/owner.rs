//! A claim that is repeated after a time-out meets its own record and recognises itself (I3,
//! trap 13).

use semel_core::{Fence, Release};

use super::Fixture;
use super::trial::{
    EVERY_POLICY, Trial, attempt, brief, brief_with, completed, id, in_flight, patient, repeated,
    replayed,
};

/// The repeat gets the same right, counted from now.
pub async fn repeated_claim_recognises_itself<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let first = attempt("k");
    let lost = trial.lease_with(&first, &brief::<F>()).await;
    trial.pass(F::UNIT).await;
    let before = trial.now().await;
    let again = trial.lease_with(&repeated(&first), &brief::<F>()).await;
    assert_eq!(again.fence(), Fence::FIRST);
    assert_eq!(again.owner(), first.owner());
    assert_eq!(again.expires(), lost.expires());
    let lease = brief::<F>().lease();
    trial.assert_counts_from(before, lease, again.until()).await;
    assert_eq!(trial.record(id("k")).await.attempts(), 1);
}

/// A repeat that asks for less keeps what it has: a lease never gets shorter (I1).
pub async fn repeated_claim_never_shortens_the_lease<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let first = attempt("k");
    let lease = trial.lease(&first).await;
    let again = trial.lease_with(&repeated(&first), &brief::<F>()).await;
    assert_eq!(again.until(), lease.until());
}

/// Nobody else is taken for the holder.
pub async fn another_owner_is_not_recognised<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let first = attempt("k");
    let lease = trial.lease(&first).await;
    assert_eq!(in_flight(trial.claim(&attempt("k")).await), lease.until());
    let again = trial.lease(&repeated(&first)).await;
    assert_eq!(again.fence(), lease.fence());
}

/// Also after the lease ran out, as long as nobody replaced it, and under every policy: it has not
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

/// Whoever was replaced waits like everybody else.
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

/// A repeat that comes after its own release is a new try under the next fence.
pub async fn repeated_claim_after_release_gets_the_next_fence<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let first = attempt("k");
    let lease = trial.lease(&first).await;
    trial.hand_back(&lease, Release::Retry).await;
    let again = trial.lease(&repeated(&first)).await;
    assert_eq!(again.fence(), Fence::FIRST.next());
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
