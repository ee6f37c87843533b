//! Clusters whose slots migrate and whose servers die.

use std::time::Duration;

use semel_core::{Claim, Policy};
use semel_redis::RedisStore;
use semel_store::{Guard, Guarded, Settled, Store as _};
use semel_testserver::{Redis, RedisCluster};

use crate::waiting::{eventually, eventually_async};
use crate::{assert_replayed, claim, lease, open, options, paid};

/// The key of a record.
pub(crate) fn key(number: u8) -> String {
    format!("semel:{}", format!("{number:02x}").repeat(32))
}

/// The slot of a record, its server, and another one.
fn slot_and_servers(cluster: &RedisCluster, number: u8) -> (String, &Redis, &Redis) {
    let slot = cluster.servers()[0].cli(&["CLUSTER", "KEYSLOT", &key(number)]).expect("a slot");
    let masters = cluster.masters();
    // A server that has it does not redirect.
    let has = |server: &Redis| server.cli(&["EXISTS", &key(number)]).is_ok();
    let owner = masters.iter().position(has).expect("an owner");
    (slot, &masters[owner], &masters[(owner + 1) % masters.len()])
}

/// Migrates the slot of a record that does not exist to another server.
pub(crate) fn move_empty_slot(cluster: &RedisCluster, number: u8) {
    let (slot, from, to) = slot_and_servers(cluster, number);
    let id = |server: &Redis| server.cli(&["CLUSTER", "MYID"]).expect("an id");
    let (from, new) = (id(from), id(to));
    // Only an importing server gets a higher epoch than the one that the old owner may just have
    // announced.
    to.cli(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from]).expect("importing");
    to.cli(&["CLUSTER", "SETSLOT", &slot, "NODE", &new]).expect("a new owner");
    for server in cluster.masters() {
        server.cli(&["CLUSTER", "SETSLOT", &slot, "NODE", &new]).expect("a new owner");
    }
}

/// The number of redirections by a server.
fn redirections(server: &Redis) -> u64 {
    let errors = server.cli(&["INFO", "errorstats"]).expect("errors");
    let count = errors.lines().find_map(|line| line.strip_prefix("errorstat_MOVED:count="));
    count.map_or(0, |count| count.trim().parse().expect("a count"))
}

/// Regression: after six redirections, a tenth of a second, a verb was given up that had a second.
#[tokio::test(flavor = "multi_thread")]
async fn servers_that_name_each_other_are_asked_until_they_agree() {
    let cluster = RedisCluster::start(3, 0, &Redis::options()).expect("a cluster");
    let store = options(&cluster.url()).verb_timeout(Duration::from_mins(1));
    let store = store.open().await.expect("a store");
    let (slot, from, to) = slot_and_servers(&cluster, 7);
    let [from_id, to_id] =
        [from, to].map(|server| server.cli(&["CLUSTER", "MYID"]).expect("an id"));
    to.cli(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]).expect("importing");
    from.cli(&["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]).expect("a new owner");
    let claimed = tokio::spawn(async move { claim(&store, 7, 1).await });
    eventually_async("it was sent from one to the other", async || {
        redirections(from) + redirections(to) > 12 || claimed.is_finished()
    })
    .await;
    to.cli(&["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]).expect("a new owner");
    let claimed = claimed.await.expect("it ends").expect("an answer");
    assert!(matches!(claimed, Claim::Execute(_)), "{claimed:?}");
}

/// Slots that migrate do not disturb verbs.
#[tokio::test]
async fn a_key_that_moves_to_another_server_is_followed() {
    let cluster = RedisCluster::start(3, 0, &Redis::options()).expect("a cluster");
    follow_a_key_that_moves(&cluster, &open(&cluster.url()).await).await;
}

pub(crate) async fn follow_a_key_that_moves(cluster: &RedisCluster, store: &RedisStore) {
    let held = lease(store, 7).await;
    let (key, (slot, from, to)) = (key(7), slot_and_servers(cluster, 7));
    let [from_id, to_id] =
        [from, to].map(|server| server.cli(&["CLUSTER", "MYID"]).expect("an id"));
    to.cli(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]).expect("importing");
    from.cli(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]).expect("migrating");
    let port = to.port().to_string();
    from.cli(&["MIGRATE", "127.0.0.1", &port, &key, "0", "5000"]).expect("a key that moved");
    // The old owner redirects, this once.
    let outcome = store.settle(&held, paid()).await.expect("an answer");
    assert_eq!(outcome, Settled::Recorded);
    for server in [to, from] {
        server.cli(&["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]).expect("a new owner");
    }
    assert_replayed(store, 7).await;
    assert_replayed(store, 7).await;
}

/// One master is down without a replica: the keys of the others are served. Regression: one breaker for
/// all masters refused these as well.
#[tokio::test(flavor = "multi_thread")]
async fn a_master_that_is_away_does_not_take_the_others_along() {
    let options = Redis::options()
        .setting("cluster-require-full-coverage", "no")
        .setting("cluster-node-timeout", "1000");
    let cluster = RedisCluster::start(3, 0, &options).expect("a cluster");
    let guard =
        Guard { failures_to_open: 3, open_for: Duration::from_mins(10), ..Guard::default() };
    let store = Guarded::new(open(&cluster.url()).await, guard);
    let away = &cluster.masters()[0];
    let is_away = |number: u8| away.cli(&["EXISTS", &key(number)]).is_ok();
    let (lost, served): (Vec<u8>, Vec<u8>) = (0..60).partition(|number| is_away(*number));
    assert!(lost.len() > 5 && served.len() > 5, "{lost:?}");
    away.pause().expect("a master to freeze");
    let claim =
        async |number: u8| store.claim(&crate::attempt(number, 1), &Policy::default()).await;
    let mut refused = 0;
    for (number, other) in lost.iter().zip(served.iter().cycle()) {
        let error = claim(*number).await.expect_err("an outage").to_string();
        refused += usize::from(error.contains("breaker is open"));
        assert!(store.health().await.is_err());
        // The same claim again is granted again.
        assert!(matches!(claim(*other).await, Ok(Claim::Execute(_))), "{other}");
    }
    assert!(refused >= lost.len() - 3, "{refused} of {} refused at once", lost.len());
    for number in served {
        assert!(matches!(claim(number).await, Ok(Claim::Execute(_))), "{number}");
    }
    away.resume().expect("a master");
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
    // Replication is asynchronous: writes that the replica does not have would be lost, which is not
    // tested here.
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
