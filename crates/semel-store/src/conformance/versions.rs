//! Records survive when a store is closed and opened again.
//!
//! Records written by other versions of a store are the business of that store's own codec tests.

use semel_core::{Claim, Fence, OnAbandoned, Release, Reply, ResultId, Settlement};

use super::Fixture;
use super::trial::{
    Trial, attempt, brief, brief_with, completed, failed, id, in_flight, repeated, replayed,
};

const STATES: [&str; 8] =
    ["leased", "renewed", "abandoned", "released", "held", "completed", "failed", "fail"];

/// Opens the store again. One that is declared not durable must have forgotten `key`: then there is
/// nothing more to check, and this is `None`.
async fn reopened<F: Fixture>(trial: Trial<F>, key: &str) -> Option<Trial<F>> {
    let trial = trial.reopen().await;
    if F::DURABLE {
        return Some(trial);
    }
    assert_eq!(trial.inspect(id(key)).await, None, "declared not durable");
    assert_eq!(trial.lease(&attempt(key)).await.fence(), Fence::FIRST);
    None
}

/// Brings one record into each of [`STATES`].
async fn every_state<F: Fixture>(trial: &Trial<F>) {
    let fail = brief_with::<F>(OnAbandoned::Fail);
    let _ = trial.abandoned("abandoned").await;
    let _ = trial.abandoned("fail").await;
    let _ = replayed(trial.claim_with(&attempt("fail"), &fail).await);
    let _leased = trial.lease(&attempt("leased")).await;
    let renewed = trial.lease(&attempt("renewed")).await;
    trial.renew(&renewed, F::UNIT * 99).await;
    let released = trial.lease(&attempt("released")).await;
    trial.hand_back(&released, Release::Retry).await;
    let held = trial.lease(&attempt("held")).await;
    trial.hand_back(&held, Release::Hold).await;
    let lease = trial.lease(&attempt("completed")).await;
    trial.record_outcome(&lease, &paid()).await;
    let lease = trial.lease(&attempt("failed")).await;
    trial.record_outcome(&lease, &failed("declined")).await;
}

fn paid() -> Settlement {
    let result = ResultId::new("charge_42").expect("a result id");
    Settlement::Completed(Reply::new("paid").with_result(result))
}

/// Every state of a record is the same after reopening, in every field.
pub async fn every_state_survives_reopening<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    every_state(&trial).await;
    let mut before = Vec::new();
    for key in STATES {
        before.push(trial.record(id(key)).await);
    }
    let Some(trial) = reopened(trial, "completed").await else {
        return;
    };
    for (key, before) in STATES.into_iter().zip(before) {
        assert_eq!(trial.record(id(key)).await, before, "{key}");
    }
}

/// Claims are answered after reopening as they would have been before.
pub async fn claims_are_answered_alike_after_reopening<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    every_state(&trial).await;
    let Some(trial) = reopened(trial, "completed").await else {
        return;
    };
    let outcome = |key| trial_outcome(&trial, key);
    assert_eq!(outcome("completed").await, paid());
    assert_eq!(outcome("failed").await, failed("declined"));
    assert_eq!(outcome("fail").await, Settlement::Abandoned);
    let _ = in_flight(trial.claim(&attempt("leased")).await);
    let _ = in_flight(trial.claim(&attempt("renewed")).await);
    assert_eq!(trial.claim(&attempt("held")).await, Claim::Unknown);
    for key in ["released", "abandoned"] {
        let next = trial.lease(&attempt(key)).await;
        assert_eq!(next.fence(), Fence::FIRST.next(), "{key}");
    }
}

async fn trial_outcome<F: Fixture>(trial: &Trial<F>, key: &str) -> Settlement {
    replayed(trial.claim(&attempt(key)).await)
}

/// A holder continues after reopening: its lease counts, and its repeated claim is recognised.
pub async fn leases_survive_reopening<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let first = attempt("k");
    let lease = trial.lease(&first).await;
    let Some(trial) = reopened(trial, "k").await else {
        return;
    };
    let again = trial.lease(&repeated(&first)).await;
    assert_eq!(again.fence(), lease.fence());
    trial.record_outcome(&lease, &completed("paid")).await;
    let Some(trial) = reopened(trial, "k").await else {
        return;
    };
    trial.record_outcome(&lease, &completed("paid")).await;
    assert_eq!(replayed(trial.claim(&attempt("k")).await), completed("paid"));
}

/// What had expired stays expired, and can still be swept.
pub async fn expired_records_stay_expired_after_reopening<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let lease = trial.lease_with(&attempt("k"), &brief::<F>()).await;
    trial.record_outcome(&lease, &completed("paid")).await;
    trial.reach(lease.expires()).await;
    let Some(trial) = reopened(trial, "k").await else {
        return;
    };
    assert_eq!(trial.inspect(id("k")).await, None);
    let deleted = trial.sweep_all(10).await;
    assert_eq!(deleted, usize::from(F::SWEPT_BY_CALLER));
    assert_eq!(trial.lease(&attempt("k")).await.fence(), Fence::FIRST);
}
