//! Servers of a cluster that hand over, and that die.

use semel_core::Claim;
use semel_store::{Settled, Store as _};
use semel_testserver::{Redis, RedisCluster};

use crate::patience::{eventually, eventually_async};
use crate::{assert_replayed, claim, lease, open, paid};

/// A key of a number, in the slot where its record is.
fn slot_of(cluster: &RedisCluster, number: u8) -> (String, String) {
    let key = format!("semel:{}", format!("{number:02x}").repeat(32));
    let slot = cluster.servers()[0].cli(&["CLUSTER", "KEYSLOT", &key]).expect("a slot");
    (key, slot)
}

/// The server that says it has a slot, and another one.
fn owner_and_other(cluster: &RedisCluster, slot: &str) -> (usize, usize) {
    let count = |server: &Redis| server.cli(&["CLUSTER", "COUNTKEYSINSLOT", slot]).expect("keys");
    let owner = cluster.masters().iter().position(|server| count(server) != "0");
    let owner = owner.expect("an owner");
    (owner, (owner + 1) % cluster.masters().len())
}

/// Slots move while the store is used: nobody notices.
#[tokio::test]
async fn a_key_that_moves_to_another_server_is_followed() {
    let cluster = RedisCluster::start(3, 0, &Redis::options()).expect("a cluster");
    let store = open(&cluster.url()).await;
    let held = lease(&store, 7).await;
    let (key, slot) = slot_of(&cluster, 7);
    let (from, to) = owner_and_other(&cluster, &slot);
    let (from, to) = (&cluster.masters()[from], &cluster.masters()[to]);
    let [from_id, to_id] =
        [from, to].map(|server| server.cli(&["CLUSTER", "MYID"]).expect("an id"));
    to.cli(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]).expect("importing");
    from.cli(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]).expect("migrating");
    let port = to.port().to_string();
    from.cli(&["MIGRATE", "127.0.0.1", &port, &key, "0", "5000"]).expect("a key that moved");
    // The old owner sends us on, for this once.
    let outcome = store.settle(&held, paid()).await.expect("an answer");
    assert_eq!(outcome, Settled::Recorded);
    for server in [to, from] {
        server.cli(&["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]).expect("a new owner");
    }
    assert_replayed(&store, 7).await;
    assert_replayed(&store, 7).await;
}

/// A master is killed, and its replica takes over: the store finds it by itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_takes_over_is_found() {
    let options = Redis::options().setting("cluster-node-timeout", "1000");
    let cluster = RedisCluster::start(3, 1, &options).expect("a cluster");
    let store = open(&cluster.url()).await;
    let store = &store;
    for number in 0..30 {
        let held = lease(store, number).await;
        assert_eq!(store.settle(&held, paid()).await.expect("an answer"), Settled::Recorded);
    }
    // Replication is asynchronous: what it does not have would be lost, and that is not tried here.
    for (number, master) in cluster.masters().iter().enumerate() {
        for replica in cluster.replicas_of(number) {
            eventually("it has all", || {
                master.cli(&["DBSIZE"]).expect("keys") == replica.cli(&["DBSIZE"]).expect("keys")
            });
        }
    }
    cluster.masters()[0].kill().expect("a master to kill");
    for number in 0..30 {
        eventually_async("it is answered", async || {
            matches!(claim(store, number, 2).await, Ok(Claim::Replay { .. }))
        })
        .await;
    }
    eventually_async("it is healthy", async || store.health().await.is_ok()).await;
}
