//! A lease ran out without a settlement: the policy decides what follows.

use semel_core::{Claim, Fence, OnAbandoned, Refusal, Settlement, State};

use super::Fixture;
use super::trial::{
    EVERY_POLICY, Trial, attempt, brief, brief_with, completed, id, in_flight, replayed,
};
use crate::Settled;

/// `reexecute`: the next attempt executes, under the next fence.
pub async fn reexecute_grants_the_next_fence<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let late = trial.abandoned("k").await;
    let next = trial.lease_with(&attempt("k"), &brief::<F>()).await;
    assert_eq!(next.fence(), late.fence().next());
    assert_eq!(in_flight(trial.claim(&attempt("k")).await), next.until());
}

/// `fail`: the record is settled as abandoned, for all attempts and under every policy.
pub async fn fail_settles_as_abandoned<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let late = trial.abandoned("k").await;
    let expected = || Claim::Replay { settlement: Settlement::Abandoned, expires: late.expires() };
    let fail = brief_with::<F>(OnAbandoned::Fail);
    assert_eq!(trial.claim_with(&attempt("k"), &fail).await, expected());
    let record = trial.record(id("k")).await;
    assert_eq!(record.state, State::Settled(Settlement::Abandoned));
    assert!(record.is_current(&late));
    for policy in EVERY_POLICY.map(brief_with::<F>) {
        assert_eq!(trial.claim_with(&attempt("k"), &policy).await, expected());
    }
}

/// `fail` is final: the late holder gives the same answer as all others (I4).
pub async fn late_settle_after_fail_is_refused<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let late = trial.abandoned("k").await;
    let fail = brief_with::<F>(OnAbandoned::Fail);
    let _ = replayed(trial.claim_with(&attempt("k"), &fail).await);
    let refused = Settled::Refused(Refusal::Settled {
        settlement: Settlement::Abandoned,
        expires: late.expires(),
    });
    assert_eq!(trial.settle(&late, &completed("paid")).await, refused);
    assert_eq!(replayed(trial.claim(&attempt("k")).await), Settlement::Abandoned);
}

/// `hold`: no attempt executes, and none changes the record.
pub async fn hold_answers_unknown<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let _late = trial.abandoned("k").await;
    let before = trial.record(id("k")).await;
    let hold = brief_with::<F>(OnAbandoned::Hold);
    for _ in 0..3 {
        assert_eq!(trial.claim_with(&attempt("k"), &hold).await, Claim::Unknown);
    }
    assert_eq!(trial.record(id("k")).await, before);
}

/// `hold` resolves itself when the holder returns (I3).
pub async fn late_settle_resolves_hold<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let late = trial.abandoned("k").await;
    let hold = brief_with::<F>(OnAbandoned::Hold);
    assert_eq!(trial.claim_with(&attempt("k"), &hold).await, Claim::Unknown);
    trial.record_outcome(&late, &completed("paid")).await;
    let outcome = replayed(trial.claim_with(&attempt("k"), &hold).await);
    assert_eq!(outcome, completed("paid"));
}

/// The policy of the new attempt counts, not that of the abandoned one.
pub async fn policy_of_the_asker_decides<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let fail = brief_with::<F>(OnAbandoned::Fail);
    let late = trial.lease_with(&attempt("k"), &fail).await;
    trial.abandon(&late).await;
    let hold = brief_with::<F>(OnAbandoned::Hold);
    assert_eq!(trial.claim_with(&attempt("k"), &hold).await, Claim::Unknown);
    let next = trial.lease_with(&attempt("k"), &brief::<F>()).await;
    assert_eq!(next.fence(), Fence::FIRST.next());
}

/// A lease is live up to its last moment, under every policy, and not a moment longer.
pub async fn lease_is_live_until_it_ends<F: Fixture>() {
    for (key, on_abandoned) in ["r", "f", "h"].into_iter().zip(EVERY_POLICY) {
        let trial = Trial::<F>::begin().await;
        let policy = brief_with::<F>(on_abandoned);
        let lease = trial.lease_with(&attempt(key), &policy).await;
        trial.reach_just_before(lease.until()).await;
        let waits = trial.claim_with(&attempt(key), &policy).await;
        assert_eq!(in_flight(waits), lease.until());
        trial.reach(lease.until()).await;
        let claim = trial.claim_with(&attempt(key), &policy).await;
        assert!(!matches!(claim, Claim::InFlight { .. }), "{claim:?}");
    }
}
