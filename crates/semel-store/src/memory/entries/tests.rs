use std::sync::Arc;

use semel_core::{Claim, Policy, Release, Reply, Settlement};

use super::*;
use crate::faulty::attempt;
use crate::scripted::Logs;
use crate::{ManualClock, MemoryStore, Released, Renewed, Settled, Store, StoreError};

fn store(records_max: usize, reply_bytes_max: u64) -> (MemoryStore, ManualClock) {
    Logs::install();
    let clock = ManualClock::at(Timestamp::from_millis(1_000_000));
    let limits = MemoryLimits { records_max, reply_bytes_max };
    (MemoryStore::with_limits(Arc::new(clock.clone()), limits), clock)
}

fn policy() -> Policy {
    Policy::default()
}

async fn claim(store: &MemoryStore, key: &str, owner: u128) -> Result<Claim, StoreError> {
    store.claim(&attempt(key, owner), &policy()).await
}

async fn lease(store: &MemoryStore, key: &str, owner: u128) -> semel_core::Lease {
    match claim(store, key, owner).await {
        Ok(Claim::Execute(lease)) => lease,
        other => panic!("{key}: {other:?}"),
    }
}

fn is_declined(claimed: &Result<Claim, StoreError>) -> bool {
    matches!(claimed, Err(error @ StoreError::Declined { .. }) if !error.is_outage() && error.is_passing())
}

/// As a full Redis (decision 0035): what was begun ends, and nothing new begins.
#[tokio::test]
async fn a_full_store_settles_running_executions_and_declines_new_ones() {
    let (store, _) = store(2, u64::MAX);
    let settled = Settlement::Completed(Reply::new("done"));
    let (first, second) = (lease(&store, "first", 1).await, lease(&store, "second", 2).await);
    assert!(is_declined(&claim(&store, "third", 3).await));
    assert_eq!(store.len(), 2, "what was declined is not there");

    // Its owner repeats its claim, renews, settles; another releases.
    assert!(matches!(claim(&store, "first", 1).await, Ok(Claim::Execute(_))));
    let renewed = store.renew(&first, policy().lease()).await;
    assert!(matches!(renewed, Ok(Renewed::Until { .. })));
    assert_eq!(store.settle(&first, settled).await.unwrap(), Settled::Recorded);
    assert!(matches!(claim(&store, "first", 4).await, Ok(Claim::Replay { .. })));
    assert_eq!(store.release(&second, Release::Retry).await.unwrap(), Released::Done);
    // This record is there already.
    assert!(matches!(claim(&store, "second", 5).await, Ok(Claim::Execute(_))));
    assert!(is_declined(&claim(&store, "third", 3).await));
    let health = store.health().await.unwrap();
    assert!(health.note.is_some_and(|note| note.contains("full")));
}

#[tokio::test]
async fn replies_count_and_no_execution_begins_beyond_their_limit() {
    let (store, clock) = store(usize::MAX, 10);
    let held = lease(&store, "held", 1).await;
    let released = lease(&store, "released", 2).await;
    store.release(&released, Release::Retry).await.unwrap();
    let nine = lease(&store, "nine", 3).await;
    store.settle(&nine, Settlement::Completed(Reply::new("123456789"))).await.unwrap();
    let other = lease(&store, "other", 4).await;
    store.settle(&other, Settlement::Failed(Reply::new("1"))).await.unwrap();
    assert!(is_declined(&claim(&store, "new", 5).await));
    assert!(is_declined(&claim(&store, "released", 5).await), "it could bring another reply");
    let again = claim(&store, "held", 1).await;
    assert!(matches!(again, Ok(Claim::Execute(_))), "its owner has begun: {again:?}");
    store.settle(&held, Settlement::Completed(Reply::new("12345"))).await.unwrap();
    clock.advance(policy().ttl());
    assert!(matches!(claim(&store, "new", 5).await, Ok(Claim::Execute(_))));
    assert_eq!(store.len(), 1, "expired records made room");
}

/// A full store sweeps once a second, not for each claim.
#[tokio::test]
async fn expired_records_make_room_at_most_once_a_second() {
    let (store, clock) = store(1, u64::MAX);
    let short = Policy::builder().lease(Duration::from_millis(10)).ttl(Duration::from_millis(20));
    store.claim(&attempt("short", 1), &short.build().unwrap()).await.unwrap();
    assert!(is_declined(&claim(&store, "next", 2).await));
    clock.advance(Duration::from_millis(500));
    assert!(is_declined(&claim(&store, "next", 2).await), "it has swept in this second");
    clock.advance(Duration::from_millis(500));
    assert!(matches!(claim(&store, "next", 2).await, Ok(Claim::Execute(_))));
}

#[tokio::test]
async fn a_full_store_is_logged_once() {
    let logs = Logs::of_this_thread();
    let (store, clock) = store(20, u64::MAX);
    for number in 0..40 {
        let _ = claim(&store, &format!("k-{number}"), number).await;
    }
    let log = logs.text();
    assert_eq!(log.matches("memory_is_full").count(), 1, "{log}");
    assert!(store.health().await.unwrap().note.is_some());
    clock.advance(policy().ttl());
    store.sweep(1).await.unwrap();
    claim(&store, "next", 1).await.unwrap();
    assert!(!logs.text().contains("room again"), "it is full again at once");
    store.sweep(usize::MAX).await.unwrap();
    assert_eq!(logs.text().matches("room again").count(), 1);
    assert_eq!(store.health().await.unwrap().note, None);
}
