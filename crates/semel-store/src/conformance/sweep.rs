//! Sweeping deletes what has expired, and nothing else.

use std::sync::Arc;

use semel_core::{Fence, Release};

use super::Fixture;
use super::trial::{Trial, attempt, brief, completed, id, in_flight, replayed};
use crate::{Renewed, Swept};

/// Settles `count` records that expire soon, `key-0` and on; returns when the last has expired.
async fn expired_records<F: Fixture>(trial: &Trial<F>, count: usize) {
    for number in 0..count {
        let key = attempt(&format!("key-{number}"));
        let lease = trial.lease_with(&key, &brief::<F>()).await;
        trial.record_outcome(&lease, &completed("paid")).await;
        if number + 1 == count {
            trial.reach(lease.expires()).await;
        }
    }
}

/// What a store that is swept by its caller deletes; one that sweeps itself has nothing left to do.
const fn swept_by_caller<F: Fixture>(count: usize) -> usize {
    if F::SWEPT_BY_CALLER { count } else { 0 }
}

/// There is nothing to do in an empty store.
pub async fn empty_store_has_nothing_to_sweep<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let nothing = Swept { deleted: 0, more: false };
    assert_eq!(trial.sweep(10).await, nothing);
}

/// Expired records go; live ones stay as they are, in every state.
pub async fn sweep_deletes_expired_records_only<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let _leased = trial.lease(&attempt("leased")).await;
    let released = trial.lease(&attempt("released")).await;
    let held = trial.lease(&attempt("held")).await;
    let settled = trial.lease(&attempt("settled")).await;
    trial.hand_back(&released, Release::Retry).await;
    trial.hand_back(&held, Release::Hold).await;
    trial.record_outcome(&settled, &completed("paid")).await;
    expired_records(&trial, 3).await;
    let live = ["leased", "released", "held", "settled"].map(id);
    let mut before = Vec::new();
    for id in live {
        before.push(trial.record(id).await);
    }
    assert_eq!(trial.sweep_all(100).await, swept_by_caller::<F>(3));
    for (id, before) in live.into_iter().zip(before) {
        assert_eq!(trial.record(id).await, before);
    }
    assert_eq!(trial.sweep_all(100).await, 0);
}

/// One sweep deletes at most its limit, and reports that there is more to do (I10).
pub async fn sweep_respects_its_limit<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    expired_records(&trial, 7).await;
    if F::SWEPT_BY_CALLER {
        let swept = trial.sweep(3).await;
        assert!(swept.deleted <= 3 && swept.more, "{swept:?}");
        assert_eq!(swept.deleted + trial.sweep_all(3).await, 7);
    }
    assert_eq!(trial.sweep_all(3).await, 0);
}

/// A lease that is live was never expired, and one renewed in time is live (I1).
pub async fn sweep_spares_live_and_renewed_leases<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let renewed = trial.lease_with(&attempt("renewed"), &brief::<F>()).await;
    let until = match trial.renew(&renewed, F::UNIT * 40).await {
        Renewed::Until { until, .. } => until,
        Renewed::Refused(refusal) => panic!("expected Until, got {refusal:?}"),
    };
    let live = trial.lease(&attempt("live")).await;
    expired_records(&trial, 1).await;
    trial.reach(renewed.expires()).await;
    trial.sweep_all(100).await;
    assert_eq!(in_flight(trial.claim(&attempt("renewed")).await), until);
    assert_eq!(in_flight(trial.claim(&attempt("live")).await), live.until());
}

/// An abandoned record that has not expired still stands between two executions.
pub async fn sweep_spares_abandoned_records<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let _late = trial.abandoned("k").await;
    let before = trial.record(id("k")).await;
    assert_eq!(trial.sweep_all(100).await, 0);
    assert_eq!(trial.record(id("k")).await, before);
    let next = trial.lease(&attempt("k")).await;
    assert_eq!(next.fence(), Fence::FIRST.next());
}

/// A swept key is as new as one that only expired.
pub async fn swept_key_starts_a_new_life<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    expired_records(&trial, 1).await;
    trial.sweep_all(100).await;
    assert_eq!(trial.inspect(id("key-0")).await, None);
    let lease = trial.lease(&attempt("key-0")).await;
    assert_eq!(lease.fence(), Fence::FIRST);
    trial.record_outcome(&lease, &completed("again")).await;
    trial.sweep_all(100).await;
    let outcome = replayed(trial.claim(&attempt("key-0")).await);
    assert_eq!(outcome, completed("again"));
}

/// A key claimed again while its old record is being swept keeps its new record.
pub async fn sweep_while_claiming_loses_nothing<F: Fixture>() {
    const KEYS: usize = 200;
    let trial = Arc::new(Trial::<F>::begin().await);
    expired_records(&trial, KEYS).await;
    let sweeper = tokio::spawn({
        let trial = Arc::clone(&trial);
        async move {
            for _ in 0..KEYS {
                trial.sweep(5).await;
            }
        }
    });
    for number in (0..KEYS).rev() {
        let key = format!("key-{number}");
        let lease = trial.lease(&attempt(&key)).await;
        trial.record_outcome(&lease, &completed(&key)).await;
    }
    sweeper.await.expect("the sweeper");
    trial.sweep_all(100).await;
    for number in 0..KEYS {
        let key = format!("key-{number}");
        let outcome = replayed(trial.claim(&attempt(&key)).await);
        assert_eq!(outcome, completed(&key));
    }
}
