//! Many at once: one wins, and all agree which (I1, trap 2).

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use semel_core::{Attempt, Claim, Fence, Lease, OnAbandoned, Refusal, Release, Settlement};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::Fixture;
use super::trial::{
    Trial, attempt, brief_with, completed, failed, granted, id, in_flight, patient, repeated,
    replayed, rules,
};
use crate::{Renewed, Settled, Store};

const TASKS: usize = 100;

/// How often a race of two is run: one run alone would mostly go the same way.
const ROUNDS: usize = 20;

/// Claims `key` from a hundred tasks that start together.
async fn claim_concurrently<F: Fixture>(
    trial: &Arc<Trial<F>>,
    key: &str,
    on_abandoned: OnAbandoned,
) -> Vec<Claim> {
    let start = Arc::new(Barrier::new(TASKS));
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let (trial, start) = (Arc::clone(trial), Arc::clone(&start));
        let attempt = attempt(key);
        tasks.spawn(async move {
            start.wait().await;
            let policy = match on_abandoned {
                OnAbandoned::Reexecute => patient(),
                other => brief_with::<F>(other),
            };
            trial.claim_with(&attempt, &policy).await
        });
    }
    tasks.join_all().await
}

/// Exactly one claim was granted a lease, and all others wait for its end.
fn assert_one_lease(claims: Vec<Claim>) -> Lease {
    let (granted_claims, others): (Vec<_>, Vec<_>) =
        claims.into_iter().partition(|claim| matches!(claim, Claim::Execute(_)));
    assert_eq!(granted_claims.len(), 1, "exactly one lease");
    let lease = granted_claims.into_iter().map(granted).next();
    let lease = lease.expect("the one lease");
    for other in others {
        assert_eq!(in_flight(other), lease.until());
    }
    lease
}

/// A hundred claims of a fresh key grant one lease.
pub async fn crowd_on_a_fresh_key_gets_one_lease<F: Fixture>() {
    let trial = Arc::new(Trial::<F>::begin().await);
    for round in 0..5 {
        let key = format!("k{round}");
        let lease =
            assert_one_lease(claim_concurrently(&trial, &key, OnAbandoned::Reexecute).await);
        assert_eq!(lease.fence(), Fence::FIRST);
        assert!(trial.record(id(&key)).await.is_current(&lease));
    }
}

/// A hundred claims of an abandoned key grant one lease, under the next fence.
pub async fn crowd_on_an_abandoned_key_gets_one_lease<F: Fixture>() {
    let trial = Arc::new(Trial::<F>::begin().await);
    let late = trial.abandoned("k").await;
    let lease = assert_one_lease(claim_concurrently(&trial, "k", OnAbandoned::Reexecute).await);
    assert_eq!(lease.fence(), late.fence().next());
}

/// A hundred claims of a released key grant one lease, under the next fence.
pub async fn crowd_on_a_released_key_gets_one_lease<F: Fixture>() {
    let trial = Arc::new(Trial::<F>::begin().await);
    let first = trial.lease(&attempt("k")).await;
    trial.hand_back(&first, Release::Retry).await;
    let lease = assert_one_lease(claim_concurrently(&trial, "k", OnAbandoned::Reexecute).await);
    assert_eq!(lease.fence(), first.fence().next());
}

/// A hundred claims of an expired key begin one new life.
pub async fn crowd_on_an_expired_key_gets_one_lease<F: Fixture>() {
    let trial = Arc::new(Trial::<F>::begin().await);
    let old = trial.abandoned("k").await;
    trial.reach(old.expires()).await;
    let lease = assert_one_lease(claim_concurrently(&trial, "k", OnAbandoned::Reexecute).await);
    assert_eq!(lease.fence(), Fence::FIRST);
}

/// A hundred claims of an abandoned key under `fail` all get the same end.
pub async fn crowd_under_fail_agrees<F: Fixture>() {
    let trial = Arc::new(Trial::<F>::begin().await);
    let _late = trial.abandoned("k").await;
    for claim in claim_concurrently(&trial, "k", OnAbandoned::Fail).await {
        assert_eq!(replayed(claim), Settlement::Abandoned);
    }
}

/// The repeats of one claim, all at once, are one right: the same fence for all.
pub async fn crowd_of_repeats_shares_one_fence<F: Fixture>() {
    let trial = Arc::new(Trial::<F>::begin().await);
    let first = attempt("k");
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let (trial, again) = (Arc::clone(&trial), repeated(&first));
        tasks.spawn(async move { trial.lease(&again).await });
    }
    for lease in tasks.join_all().await {
        assert_eq!(lease.fence(), Fence::FIRST);
    }
    assert_eq!(trial.record(id("k")).await.attempts(), 1);
}

/// Late holders of as many records as there are rounds, all abandoned and none about to expire.
async fn late_holders<F: Fixture>(trial: &Trial<F>) -> Vec<(String, Lease)> {
    let policy = rules(F::UNIT * 3, patient().ttl(), OnAbandoned::Reexecute);
    let mut holders = Vec::new();
    for round in 0..ROUNDS {
        let key = format!("k{round}");
        let lease = trial.lease_with(&attempt(&key), &policy).await;
        holders.push((key, lease));
    }
    for (_, lease) in &holders {
        trial.abandon(lease).await;
    }
    holders
}

/// A late holder settles while others take over: either its outcome stands and none executes, or
/// one successor executes and the late holder is refused (I3).
pub async fn settle_races_with_takeover<F: Fixture>() {
    let trial = Arc::new(Trial::<F>::begin().await);
    for (key, late) in late_holders(&trial).await {
        let settling = tokio::spawn({
            let trial = Arc::clone(&trial);
            async move { trial.settle(&late, &completed("late")).await }
        });
        let claims = claim_concurrently(&trial, &key, OnAbandoned::Reexecute).await;
        match settling.await.expect("the late holder") {
            Settled::Recorded => {
                for claim in claims {
                    assert_eq!(replayed(claim), completed("late"));
                }
            }
            Settled::Refused(refusal) => {
                assert_eq!(refusal, Refusal::Superseded);
                let successor = assert_one_lease(claims);
                trial.record_outcome(&successor, &completed("successor")).await;
                let outcome = replayed(trial.claim(&attempt(&key)).await);
                assert_eq!(outcome, completed("successor"));
            }
        }
    }
}

/// A late holder renews while others take over: one of them has the lease, never two.
pub async fn renewal_races_with_takeover<F: Fixture>() {
    let trial = Arc::new(Trial::<F>::begin().await);
    for (key, late) in late_holders(&trial).await {
        let renewing = tokio::spawn({
            let trial = Arc::clone(&trial);
            async move { trial.renew(&late, patient().lease()).await }
        });
        let claims = claim_concurrently(&trial, &key, OnAbandoned::Reexecute).await;
        match renewing.await.expect("the late holder") {
            Renewed::Until { until, .. } => {
                for claim in claims {
                    assert_eq!(in_flight(claim), until);
                }
            }
            Renewed::Refused(refusal) => {
                assert_eq!(refusal, Refusal::Superseded);
                let _ = assert_one_lease(claims);
            }
        }
    }
}

/// One lease, many outcomes at once: the first stands, the others learn it (I2).
pub async fn outcomes_race_and_one_stands<F: Fixture>() {
    let trial = Arc::new(Trial::<F>::begin().await);
    for round in 0..ROUNDS {
        let key = format!("k{round}");
        let lease = Arc::new(trial.lease(&attempt(&key)).await);
        let mut tasks = JoinSet::new();
        for number in 0..8 {
            let (trial, lease) = (Arc::clone(&trial), Arc::clone(&lease));
            tasks.spawn(async move {
                let mine = failed(&number.to_string());
                match trial.settle(&lease, &mine).await {
                    Settled::Recorded => (true, mine),
                    Settled::Refused(Refusal::Settled { settlement, .. }) => (false, settlement),
                    Settled::Refused(refusal) => panic!("refused with {refusal:?}"),
                }
            });
        }
        let ends = tasks.join_all().await;
        assert_eq!(ends.iter().filter(|(recorded, _)| *recorded).count(), 1);
        let stands = replayed(trial.claim(&attempt(&key)).await);
        assert!(ends.iter().all(|(_, outcome)| *outcome == stands), "{ends:?}");
    }
}

/// Polls a verb once, and drops it.
fn begin_and_drop<T>(verb: impl Future<Output = T>) {
    let mut verb = pin!(verb);
    let _ = verb.as_mut().poll(&mut Context::from_waker(Waker::noop()));
}

/// A dropped claim happened or it did not: its repeat executes, and no other attempt does meanwhile.
pub async fn dropped_claims_leave_the_store_usable<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let attempts: Vec<Attempt> = (0..TASKS).map(|n| attempt(&format!("k{n}"))).collect();
    for dropped in &attempts {
        begin_and_drop(trial.store().claim(dropped, &patient()));
    }
    for dropped in &attempts {
        let lease = trial.lease(&repeated(dropped)).await;
        assert_eq!(lease.fence(), Fence::FIRST);
        trial.record_outcome(&lease, &completed("paid")).await;
    }
}

/// A dropped settle happened or it did not: its repeat is recorded, once.
pub async fn dropped_settles_leave_the_store_usable<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    for number in 0..TASKS {
        let key = format!("k{number}");
        let lease = trial.lease(&attempt(&key)).await;
        begin_and_drop(trial.store().settle(&lease, completed("paid")));
        trial.record_outcome(&lease, &completed("paid")).await;
        assert_eq!(replayed(trial.claim(&attempt(&key)).await), completed("paid"));
    }
}
