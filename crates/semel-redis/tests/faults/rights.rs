//! Users with few rights.

use semel_redis::RedisStore;
use semel_store::{Settled, Store as _};
use semel_testserver::{Redis, RedisCluster};

use crate::cluster::follow_a_key_that_moves;
use crate::notifications::{notified, watch};
use crate::waiting::eventually;
use crate::{assert_replayed, lease, open, options, paid, replica_of};

/// A user that may write and not publish: waiters have to poll.
#[tokio::test]
async fn a_user_that_may_not_publish_can_settle() {
    let server = Redis::start().expect("a server");
    let acl = ["ACL", "SETUSER", "mute", "on", ">secret", "~semel:*", "resetchannels", "+@all"];
    server.cli(&acl).expect("a user");
    let store = open(&format!("redis://mute:secret@127.0.0.1:{}", server.port())).await;
    let held = lease(&store, 1).await;
    assert_eq!(store.settle(&held, paid()).await.expect("an answer"), Settled::Recorded);
    assert_replayed(&store, 1).await;
}

/// A user with hardly any right.
fn add_poor(server: &Redis) {
    server.cli(&["ACL", "SETUSER", "poor", "on", ">secret", "+info"]).expect("a user");
}

/// Grants the rights that the error of `open` lists.
async fn grant<'a>(url: &str, servers: impl IntoIterator<Item = &'a Redis>) {
    let error = options(url).open().await.map(drop).expect_err("no rights");
    let text = error.to_string();
    let (_, rule) = text.split_once("ACL SETUSER USER ").unwrap_or_else(|| panic!("{text}"));
    let rule = rule.replace("PREFIX", "semel:");
    for server in servers {
        let mut command = vec!["ACL", "SETUSER", "poor"];
        command.extend(rule.split_whitespace());
        server.cli(&command).expect("rights");
        server.cli(&["ACL", "LOG", "RESET"]).expect("an empty log");
        server.cli(&["CONFIG", "RESETSTAT"]).expect("empty statistics");
    }
}

/// A change by one node notifies the other.
async fn assert_notified(one: &RedisStore, other: &RedisStore, number: u8) {
    let held = lease(one, number).await;
    let mut watch = watch(other, number).await;
    assert_eq!(one.settle(&held, paid()).await.expect("an answer"), Settled::Recorded);
    notified(&mut watch).await;
    assert!(watch.is_listening());
    assert_replayed(one, number).await;
}

/// The server refused our user nothing but the library name: servers before 7.2 do not know that command,
/// and refuse to grant it.
fn assert_all_was_granted(server: &Redis) {
    let log = server.cli(&["ACL", "LOG"]).expect("a log");
    let lines: Vec<&str> = log.lines().map(str::trim).collect();
    let refused = lines.windows(2).filter(|pair| pair[0] == "object").map(|pair| pair[1]);
    let refused: Vec<&str> = refused.filter(|object| *object != "client|setinfo").collect();
    assert!(refused.is_empty(), "{refused:?} of {log}");
}

/// The rights that the error lists are enough: for records, for notifications, and for waiting.
#[tokio::test]
async fn the_error_for_missing_rights_lists_all_that_are_needed() {
    let server = Redis::start().expect("a server");
    add_poor(&server);
    let url = format!("redis://poor:secret@127.0.0.1:{}?db=1", server.port());
    grant(&url, [&server]).await;
    let (one, other) = (open(&url).await, open(&url).await);
    assert_notified(&one, &other, 1).await;
    let _replica = replica_of(&server);
    let waiting = options(&url).wait_replicas(1).open().await.expect("a store");
    assert_notified(&waiting, &other, 2).await;
    waiting.health().await.expect("it is well");
    // An idle subscriber sends a ping now and then.
    let _watch = watch(&other, 3).await;
    eventually("the ping comes", || {
        server.cli(&["INFO", "commandstats"]).expect("counts").contains("cmdstat_ping")
    });
    // A script that its server forgot is sent again.
    server.cli(&["SCRIPT", "FLUSH"]).expect("no scripts");
    assert_eq!(lease(&one, 4).await.fence().get(), 1);
    assert_all_was_granted(&server);
}

/// The same for a cluster, and for a key that migrates there.
#[tokio::test]
async fn the_listed_rights_are_enough_for_a_cluster() {
    let cluster = RedisCluster::start(3, 0, &Redis::options()).expect("a cluster");
    cluster.servers().iter().for_each(add_poor);
    let url = cluster.url().replace("redis+cluster://", "redis+cluster://poor:secret@");
    grant(&url, cluster.servers()).await;
    let (one, other) = (open(&url).await, open(&url).await);
    for number in 10..20 {
        assert_notified(&one, &other, number).await;
    }
    follow_a_key_that_moves(&cluster, &one).await;
    one.health().await.expect("it is well");
    cluster.servers().iter().for_each(assert_all_was_granted);
}
