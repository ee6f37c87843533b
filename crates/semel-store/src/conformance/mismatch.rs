//! The same key for another request: nothing happens and nothing is learnt, in every state (I8,
//! trap 9).

use semel_core::{Claim, OnAbandoned, Release};

use super::Fixture;
use super::trial::{
    EVERY_POLICY, Trial, attempt, brief, brief_with, completed, id, other_request, replayed,
};

/// Another request claims under every policy: it is refused each time and changes nothing.
async fn assert_inert<F: Fixture>(trial: &Trial<F>) {
    let before = trial.inspect(id("k")).await;
    assert!(before.is_some());
    for policy in EVERY_POLICY.map(brief_with::<F>) {
        let claim = trial.claim_with(&other_request("k"), &policy).await;
        assert_eq!(claim, Claim::Mismatch, "{policy:?}");
        assert_eq!(trial.inspect(id("k")).await, before, "{policy:?}");
    }
}

/// While the first executes.
pub async fn other_request_is_refused_while_leased<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let lease = trial.lease(&attempt("k")).await;
    assert_inert(&trial).await;
    trial.record_outcome(&lease, &completed("paid")).await;
    assert_eq!(replayed(trial.claim(&attempt("k")).await), completed("paid"));
}

/// After the first one's lease ran out: another request cannot take it over.
pub async fn other_request_is_refused_when_abandoned<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let _late = trial.abandoned("k").await;
    assert_inert(&trial).await;
    assert_eq!(trial.lease(&attempt("k")).await.fence().get(), 2);
}

/// After the first handed its lease back: the key still belongs to its request.
pub async fn other_request_is_refused_when_released<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let lease = trial.lease(&attempt("k")).await;
    trial.hand_back(&lease, Release::Retry).await;
    assert_inert(&trial).await;
    assert_eq!(trial.lease(&attempt("k")).await.fence().get(), 2);
}

/// While the outcome is unknown.
pub async fn other_request_is_refused_while_held<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let lease = trial.lease(&attempt("k")).await;
    trial.hand_back(&lease, Release::Hold).await;
    assert_inert(&trial).await;
    assert_eq!(trial.claim(&attempt("k")).await, Claim::Unknown);
}

/// After the outcome is known: it is not the other request's outcome.
pub async fn other_request_is_refused_when_settled<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let lease = trial.lease(&attempt("k")).await;
    trial.record_outcome(&lease, &completed("paid")).await;
    assert_inert(&trial).await;
    assert_eq!(replayed(trial.claim(&attempt("k")).await), completed("paid"));
    // Once more, now that the outcome was read and may lie in a cache.
    assert_inert(&trial).await;
}

/// After it was settled as abandoned.
pub async fn other_request_is_refused_when_failed<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let _late = trial.abandoned("k").await;
    let fail = brief_with::<F>(OnAbandoned::Fail);
    let _ = replayed(trial.claim_with(&attempt("k"), &fail).await);
    assert_inert(&trial).await;
}

/// A mismatched attempt that comes again is still a mismatch, not a repeat of the owner.
pub async fn repeated_mismatch_stays_a_mismatch<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let _lease = trial.lease_with(&attempt("k"), &brief::<F>()).await;
    let other = other_request("k");
    for _ in 0..3 {
        assert_eq!(trial.claim(&other).await, Claim::Mismatch);
    }
}
