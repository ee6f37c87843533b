//! Servers whose memory is full: no new work begins, and admitted work completes.

use std::time::Duration;

use semel_core::{Claim, OnAbandoned, Policy, Release};
use semel_redis::RedisStore;
use semel_store::{Released, Renewed, Settled, Store as _, StoreError};
use semel_testserver::{Redis, RedisCluster};

use crate::waiting::eventually_async;
use crate::{assert_replayed, attempt, claim, lease, open, options, paid};

const FULL: [&str; 4] = ["CONFIG", "SET", "maxmemory", "1"];
const ROOM: [&str; 4] = ["CONFIG", "SET", "maxmemory", "0"];

fn brief(on_abandoned: OnAbandoned) -> Policy {
    let policy = Policy::builder().lease(Duration::from_millis(10)).ttl(Duration::from_mins(10));
    policy.on_abandoned(on_abandoned).build().expect("a policy")
}

async fn claim_brief(store: &RedisStore, number: u8, owner: u128, then: OnAbandoned) -> Claim {
    store.claim(&attempt(number, owner), &brief(then)).await.expect("an answer")
}

/// Nothing is granted, nothing is written, and the error has a cure. No breaker may count it.
async fn assert_declined(store: &RedisStore, number: u8, owner: u128) {
    let before = store.inspect(attempt(number, owner).id()).await.expect("an answer");
    let error = claim(store, number, owner).await.expect_err("no room");
    assert!(matches!(error, StoreError::Declined { .. }), "{number}: {error:?}");
    assert!(error.is_passing() && !error.is_outage(), "{error:?}");
    assert!(error.to_string().contains("raise maxmemory"), "{error}");
    let after = store.inspect(attempt(number, owner).id()).await.expect("an answer");
    assert_eq!(after, before, "{number}");
}

/// Records 1 to 8, in all states.
struct Begun {
    settles: semel_core::Lease,
    renews: semel_core::Lease,
    releases: semel_core::Lease,
}

async fn begin(store: &RedisStore) -> Begun {
    let settled = lease(store, 1).await;
    assert_eq!(store.settle(&settled, paid()).await.expect("an answer"), Settled::Recorded);
    let (settles, renews, releases) =
        (lease(store, 2).await, lease(store, 3).await, lease(store, 4).await);
    let over = lease(store, 5).await;
    let done = store.release(&over, Release::Retry).await.expect("an answer");
    assert_eq!(done, Released::Done);
    let held = lease(store, 6).await;
    assert_eq!(store.release(&held, Release::Hold).await.expect("an answer"), Released::Done);
    for number in [7, 8] {
        let claim = claim_brief(store, number, 1, OnAbandoned::Reexecute).await;
        assert!(matches!(claim, Claim::Execute(_)), "{claim:?}");
    }
    eventually_async("their leases run out", async || {
        claim_brief(store, 7, 2, OnAbandoned::Hold).await == Claim::Unknown
            && claim_brief(store, 8, 2, OnAbandoned::Hold).await == Claim::Unknown
    })
    .await;
    Begun { settles, renews, releases }
}

/// The answer of each record of [`begin`] while the memory is full.
async fn goes_on_without_room(store: &RedisStore, begun: &Begun) {
    assert_declined(store, 9, 1).await;
    assert_replayed(store, 1).await;
    let again = store.claim(&attempt(2, 1), &Policy::default()).await.expect("an answer");
    assert!(matches!(again, Claim::Execute(_)), "its own claim, repeated: {again:?}");
    let other = claim(store, 2, 2).await.expect("an answer");
    assert!(matches!(other, Claim::InFlight { .. }), "{other:?}");
    let settled = store.settle(&begun.settles, paid()).await.expect("an answer");
    assert_eq!(settled, Settled::Recorded);
    assert_replayed(store, 2).await;
    let renewed = store.renew(&begun.renews, Duration::from_mins(9)).await.expect("an answer");
    assert!(matches!(renewed, Renewed::Until { .. }), "{renewed:?}");
    let released = store.release(&begun.releases, Release::Retry).await.expect("an answer");
    assert_eq!(released, Released::Done);
    assert_declined(store, 4, 2).await;
    assert_declined(store, 5, 2).await;
    assert_eq!(claim(store, 6, 2).await.expect("an answer"), Claim::Unknown);
    // To execute again is a new execution; to settle it as failed ends one.
    assert_declined(store, 7, 2).await;
    let failed = claim_brief(store, 8, 2, OnAbandoned::Fail).await;
    assert!(matches!(failed, Claim::Replay { .. }), "{failed:?}");
    // It serves its records, so the node is ready.
    let note = store.health().await.expect("it is well").note.expect("a note");
    assert!(note.contains("memory is full") && note.contains("raise maxmemory"), "{note}");
}

/// Nothing was lost, and new work is admitted again.
async fn goes_on_with_room(store: &RedisStore) {
    for number in [1, 2, 8] {
        assert_replayed(store, number).await;
    }
    for number in [4, 5, 7, 9] {
        let claim = claim(store, number, 3).await.expect("an answer");
        assert!(matches!(claim, Claim::Execute(_)), "{number}: {claim:?}");
    }
    assert_eq!(store.health().await.expect("it is well").note, None);
}

/// Regression: one client filled the memory, and no gateway could be started again.
#[tokio::test]
async fn a_store_can_be_opened_on_a_full_server() {
    for wait_replicas in [0, 1] {
        let server = Redis::start().expect("a server");
        let _replica = (wait_replicas > 0).then(|| crate::replica_of(&server));
        let open = async || options(&server.url()).wait_replicas(wait_replicas).open().await;
        let begun = begin(&open().await.expect("a store")).await;
        server.cli(&FULL).expect("no room");
        let store = open().await.expect("a store on a full server");
        goes_on_without_room(&store, &begun).await;
        server.cli(&ROOM).expect("room");
        goes_on_with_room(&store).await;
    }
}

#[tokio::test]
async fn a_full_server_refuses_new_work_and_completes_admitted_work() {
    let server = Redis::start().expect("a server");
    let store = open(&server.url()).await;
    let begun = begin(&store).await;
    server.cli(&FULL).expect("no room");
    goes_on_without_room(&store, &begun).await;
    // Also on a new connection, and on a server without scripts.
    server.cli(&["SCRIPT", "FLUSH"]).expect("no scripts");
    assert_replayed(&store, 1).await;
    server.cli(&ROOM).expect("room");
    goes_on_with_room(&store).await;
}

/// Connections break also while the memory is full.
#[tokio::test]
async fn a_full_server_can_be_connected_to_again() {
    let server = Redis::start().expect("a server");
    let store = open(&server.url()).await;
    let held = lease(&store, 1).await;
    server.cli(&FULL).expect("no room");
    server.cli(&["CLIENT", "KILL", "TYPE", "normal"]).expect("no clients");
    assert_eq!(store.settle(&held, paid()).await.expect("an answer"), Settled::Recorded);
    assert_replayed(&store, 1).await;
    assert_declined(&store, 2, 1).await;
}

/// Replicas that are waited for get writes that are made in a full memory, too.
#[tokio::test]
async fn a_full_server_with_a_replica_completes_admitted_work() {
    let server = Redis::start().expect("a server");
    let _replica = crate::replica_of(&server);
    let store = options(&server.url()).wait_replicas(1).open().await.expect("a store");
    let begun = begin(&store).await;
    server.cli(&FULL).expect("no room");
    goes_on_without_room(&store, &begun).await;
    server.cli(&ROOM).expect("room");
    goes_on_with_room(&store).await;
}

#[tokio::test]
async fn a_full_cluster_refuses_new_work_and_completes_admitted_work() {
    let cluster = RedisCluster::start(3, 0, &Redis::options()).expect("a cluster");
    let store = open(&cluster.url()).await;
    let begun = begin(&store).await;
    for node in cluster.servers() {
        node.cli(&FULL).expect("no room");
    }
    goes_on_without_room(&store, &begun).await;
    for node in cluster.servers() {
        node.cli(&ROOM).expect("room");
    }
    goes_on_with_room(&store).await;
}
