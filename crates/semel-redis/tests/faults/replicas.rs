//! Waiting for replicas.

use std::time::Duration;

use semel_core::{Attempt, Claim, Fingerprint, Owner, Policy, RecordId, Release};
use semel_store::{Settled, Store as _, StoreError};
use semel_testserver::Redis;

use crate::waiting::{eventually, eventually_async};
use crate::{assert_replayed, claim, lease, options, paid, replica_of};

/// Too few replicas: the record is written, and the caller gets an error.
#[tokio::test]
async fn a_write_with_too_few_replicas_is_in_doubt() {
    let master = Redis::start().expect("a server");
    let replica = replica_of(&master);
    let open = || options(&master.url()).wait_replicas(1).open();
    let store = open().await.expect("a store");
    let held = lease(&store, 1).await;
    replica.pause().expect("a replica to freeze");
    let in_doubt = |error: StoreError| {
        assert!(matches!(error, StoreError::TimedOut { .. }), "{error:?}");
        assert!(error.to_string().contains("0 of 1 replicas"), "{error}");
    };
    in_doubt(store.settle(&held, paid()).await.expect_err("no replica"));
    // The record exists, but must not be answered yet: a failover would undo it. Each verb runs on a
    // connection without earlier writes, which would have nothing to wait for.
    let id = RecordId::from_bytes([1; 32]);
    in_doubt(claim(&open().await.expect("a store"), 1, 2).await.expect_err("no replica"));
    let other = open().await.expect("a store");
    in_doubt(other.inspect(id).await.expect_err("no replica"));
    let other = open().await.expect("a store");
    in_doubt(other.settle(&held, paid()).await.expect_err("no replica"));
    let other = open().await.expect("a store");
    in_doubt(other.release(&held, Release::Retry).await.map(drop).expect_err("no replica"));
    in_doubt(store.renew(&held, Duration::from_secs(9)).await.map(drop).expect_err("no replica"));
    in_doubt(claim(&store, 2, 1).await.expect_err("no replica"));
    // An answer that does not depend on the record needs no replica.
    let other = Attempt::new(id, Fingerprint::new([("body", "y")]), Owner::from_u128(3));
    let mismatch = store.claim(&other, &Policy::default()).await.expect("an answer");
    assert_eq!(mismatch, Claim::Mismatch);
    replica.resume().expect("a replica");
    assert_eq!(store.settle(&held, paid()).await.expect("an answer"), Settled::Recorded);
    assert_replayed(&store, 1).await;
    assert_eq!(lease(&store, 2).await.fence().get(), 1, "the claim did not recognise itself");
}

/// Every claim would be in doubt. Regression: it was reported as healthy.
#[tokio::test]
async fn without_the_replicas_that_are_waited_for_it_is_not_healthy() {
    let master = Redis::start().expect("a server");
    let replica = replica_of(&master);
    let store = options(&master.url()).wait_replicas(1).open().await.expect("a store");
    eventually_async("it is well", async || store.health().await.is_ok()).await;
    replica.pause().expect("a replica to freeze");
    let error = store.health().await.expect_err("no replica");
    assert!(error.to_string().contains("0 of 1 replicas"), "{error}");
    replica.resume().expect("a replica");
    eventually_async("it is well", async || store.health().await.is_ok()).await;
    // A store with wait_replicas = 0 needs none.
    replica.pause().expect("a replica to freeze");
    let store = options(&master.url()).open().await.expect("a store");
    store.health().await.expect("it is well");
}

/// A master that is demoted while a verb waits: the write was made, and may be undone.
#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_is_demoted_leaves_doubt() {
    let master = Redis::start().expect("a server");
    let replica = replica_of(&master);
    let store = options(&master.url())
        .wait_replicas(1)
        .verb_timeout(Duration::from_secs(20))
        .open()
        .await
        .expect("a store");
    replica.pause().expect("a replica to freeze");
    let claiming = tokio::spawn(async move { claim(&store, 1, 1).await });
    eventually("it waits", || {
        master.cli(&["INFO", "clients"]).expect("facts").contains("blocked_clients:1")
    });
    let other = Redis::start().expect("another server");
    master.cli(&["REPLICAOF", "127.0.0.1", &other.port().to_string()]).expect("a replica");
    let error = claiming.await.expect("an end").expect_err("no replica");
    assert!(matches!(error, StoreError::TimedOut { .. }), "{error:?}");
}
