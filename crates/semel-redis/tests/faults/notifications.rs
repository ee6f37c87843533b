//! Notifications of changes by other nodes.

use semel_core::{RecordId, Release};
use semel_redis::RedisStore;
use semel_store::{Settled, Store as _, Watch};
use semel_testserver::{Redis, RedisCluster};

use crate::relay::{Hold, Relay};
use crate::waiting::eventually_async;
use crate::{claim, lease, open, paid};

/// Waits for a notification, for a minute at most.
pub(crate) async fn notified(watch: &mut Watch) {
    let limit = std::time::Duration::from_mins(1);
    tokio::time::timeout(limit, watch.reason()).await.expect("a notification");
}

/// A watch whose subscription is active.
pub(crate) async fn watch(store: &RedisStore, number: u8) -> Watch {
    let mut watch = store.watch(RecordId::from_bytes([number; 32])).expect("a watch");
    while !watch.is_listening() {
        notified(&mut watch).await;
    }
    watch
}

/// Whatever ends an execution notifies the other node.
#[tokio::test]
async fn changes_by_one_node_notify_the_other() {
    let server = Redis::start().expect("a server");
    let cluster = RedisCluster::start(3, 0, &Redis::options()).expect("a cluster");
    for url in [server.url(), cluster.url()] {
        let (one, other) = (open(&url).await, open(&url).await);
        for number in 0..20 {
            let held = lease(&one, number).await;
            let mut watch = watch(&other, number).await;
            if number % 2 == 0 {
                assert_eq!(one.settle(&held, paid()).await.expect("an answer"), Settled::Recorded);
            } else {
                one.release(&held, Release::Retry).await.expect("an answer");
            }
            notified(&mut watch).await;
            assert!(watch.is_listening());
        }
    }
}

/// A subscription ends with its last watch.
#[tokio::test]
async fn dropping_the_last_watch_unsubscribes() {
    let server = Redis::start().expect("a server");
    let store = open(&server.url()).await;
    let channels = || server.cli(&["PUBSUB", "SHARDCHANNELS"]).expect("channels").lines().count();
    let (one, again, two) =
        (watch(&store, 1).await, watch(&store, 1).await, watch(&store, 2).await);
    assert_eq!(channels(), 2);
    drop(one);
    drop(two);
    eventually_async("one is left", async || channels() == 1).await;
    drop(again);
    eventually_async("none is left", async || {
        server.cli(&["PUBSUB", "SHARDCHANNELS"]).expect("channels").trim().is_empty()
    })
    .await;
}

/// Many watches that begin at once are subscribed in one batch. Regression: each cost a round trip.
#[tokio::test]
async fn subscriptions_are_sent_in_batches() {
    let server = Redis::start().expect("a server");
    let hold = Hold { command: "SSUBSCRIBE", times: 20 };
    let relay = Relay::to(server.port(), Some(hold)).await;
    let store = open(&format!("redis://127.0.0.1:{}", relay.port())).await;
    let watches: Vec<Watch> = (0..20)
        .map(|number| store.watch(RecordId::from_bytes([number; 32])).expect("a watch"))
        .collect();
    for mut watch in watches {
        while !watch.is_listening() {
            notified(&mut watch).await;
        }
    }
}

/// Watches that come and go are processed in order.
#[tokio::test]
async fn a_watch_after_one_that_left_listens() {
    let server = Redis::start().expect("a server");
    let (one, other) = (open(&server.url()).await, open(&server.url()).await);
    for number in 0..30 {
        let held = lease(&one, number).await;
        let id = RecordId::from_bytes([number; 32]);
        drop(other.watch(id));
        drop(other.watch(id));
        // And one whose subscription is active already.
        drop(watch(&other, number).await);
        let mut watch = watch(&other, number).await;
        assert_eq!(one.settle(&held, paid()).await.expect("an answer"), Settled::Recorded);
        notified(&mut watch).await;
        assert!(watch.is_listening(), "{number}");
    }
}

/// A frozen host does not close its connections. Regression: its subscriptions were trusted for ever.
#[tokio::test]
async fn a_server_that_froze_is_not_relied_on() {
    let server = Redis::start().expect("a server");
    let (one, other) = (open(&server.url()).await, open(&server.url()).await);
    let held = lease(&one, 1).await;
    let mut watch = watch(&other, 1).await;
    server.pause().expect("a server to freeze");
    while watch.is_listening() {
        notified(&mut watch).await;
    }
    server.resume().expect("a server");
    while !watch.is_listening() {
        notified(&mut watch).await;
    }
    eventually_async("it is settled", async || {
        matches!(one.settle(&held, paid()).await, Ok(Settled::Recorded))
    })
    .await;
    notified(&mut watch).await;
}

/// A subscription reports that it is inactive during an outage, and becomes active again.
#[tokio::test]
async fn subscriptions_return_after_a_restart() {
    let server = Redis::options().setting("appendonly", "yes").start().expect("a server");
    let (one, other) = (open(&server.url()).await, open(&server.url()).await);
    let held = lease(&one, 1).await;
    let mut watched = watch(&other, 1).await;
    server.stop().expect("a server to stop");
    while watched.is_listening() {
        notified(&mut watched).await;
    }
    server.start_again().expect("a server");
    while !watched.is_listening() {
        notified(&mut watched).await;
    }
    assert_eq!(one.settle(&held, paid()).await.expect("an answer"), Settled::Recorded);
    notified(&mut watched).await;
}

/// A subscription follows its slot to another server.
#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_follows_its_slot() {
    let cluster = RedisCluster::start(3, 0, &Redis::options()).expect("a cluster");
    let (one, other) = (open(&cluster.url()).await, open(&cluster.url()).await);
    let mut moved = watch(&other, 7).await;
    // No record has to migrate with it.
    crate::cluster::move_empty_slot(&cluster, 7);
    let held = lease(&one, 7).await;
    // A waiter polls now and then, and is redirected.
    eventually_async("the subscription is active again", async || {
        let _ = claim(&other, 7, 2).await;
        moved.is_listening()
            && cluster.masters().iter().any(|server| {
                let channels = server.cli(&["PUBSUB", "SHARDCHANNELS"]).expect("channels");
                let key = crate::cluster::key(7);
                channels.contains(&key) && server.cli(&["EXISTS", &key]).is_ok_and(|is| is == "1")
            })
    })
    .await;
    let _ = tokio::time::timeout(std::time::Duration::ZERO, moved.reason()).await;
    assert_eq!(one.settle(&held, paid()).await.expect("an answer"), Settled::Recorded);
    notified(&mut moved).await;
}
