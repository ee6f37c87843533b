//! Many keys, many leases, and ids that are nearly equal.

use std::sync::Arc;

use semel_core::{Claim, RecordId, Release};
use tokio::task::JoinSet;

use super::Fixture;
use super::trial::{Trial, attempt, attempt_at, completed, id, replayed};

/// Runs `work` for every number below `count`, on a hundred tasks at once.
async fn for_each<F, W, Fut>(trial: &Arc<Trial<F>>, count: usize, work: W)
where
    F: Fixture,
    W: Fn(Arc<Trial<F>>, usize) -> Fut + Copy + Send + 'static,
    Fut: Future<Output = ()> + Send,
{
    const TASKS: usize = 100;
    let mut tasks = JoinSet::new();
    for first in 0..TASKS {
        let trial = Arc::clone(trial);
        tasks.spawn(async move {
            for number in (first..count).step_by(TASKS) {
                work(Arc::clone(&trial), number).await;
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("the work of one task");
    }
}

/// Thousands of keys claimed, settled and replayed by many tasks: each keeps its own outcome.
pub async fn every_one_of_many_keys_is_intact<F: Fixture>() {
    let trial = Arc::new(Trial::<F>::begin().await);
    for_each(&trial, F::MANY, |trial, number| async move {
        let key = format!("key-{number}");
        let lease = trial.lease(&attempt(&key)).await;
        trial.record_outcome(&lease, &completed(&key)).await;
    })
    .await;
    for_each(&trial, F::MANY, |trial, number| async move {
        let key = format!("key-{number}");
        let outcome = replayed(trial.claim(&attempt(&key)).await);
        assert_eq!(outcome, completed(&key));
    })
    .await;
}

/// One key that is released over and over: no lease is lost and none is counted twice.
pub async fn one_key_with_many_leases<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    for count in 1..=300 {
        let lease = trial.lease(&attempt("k")).await;
        assert_eq!(lease.fence().get(), count);
        trial.hand_back(&lease, Release::Retry).await;
    }
    assert_eq!(trial.record(id("k")).await.attempts(), 300);
}

/// Ids that differ in a single bit are different records: all 32 bytes count (trap 20).
pub async fn ids_that_differ_in_one_bit_are_kept_apart<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let mut ids = vec![[0x5a; 32], [0; 32], [0xff; 32]];
    for bit in 0..256 {
        let mut bytes = [0x5a; 32];
        bytes[bit / 8] ^= 1 << (bit % 8);
        ids.push(bytes);
    }
    for (number, bytes) in ids.iter().enumerate() {
        let lease = trial.lease(&attempt_at(RecordId::from_bytes(*bytes))).await;
        let outcome = completed(&number.to_string());
        trial.record_outcome(&lease, &outcome).await;
    }
    for (number, bytes) in ids.iter().enumerate() {
        let id = RecordId::from_bytes(*bytes);
        let claim = trial.claim(&attempt_at(id)).await;
        assert!(matches!(claim, Claim::Replay { .. }), "{id}: {claim:?}");
        assert_eq!(replayed(claim), completed(&number.to_string()), "{id}");
    }
}
