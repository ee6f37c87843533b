//! Hearing of what other nodes do.

use semel_core::{RecordId, Release};
use semel_redis::RedisStore;
use semel_store::{Settled, Store as _, Watch};
use semel_testserver::{Redis, RedisCluster};

use crate::patience::eventually_async;
use crate::relay::{Hold, Relay};
use crate::{claim, lease, open, paid};

/// Waits for a reason to look, for a minute at most.
pub(crate) async fn heard(watch: &mut Watch) {
    let limit = std::time::Duration::from_mins(1);
    tokio::time::timeout(limit, watch.reason()).await.expect("something to be heard");
}

/// A watch that has begun to listen.
pub(crate) async fn watch(store: &RedisStore, number: u8) -> Watch {
    let mut watch = store.watch(RecordId::from_bytes([number; 32])).expect("a watch");
    while !watch.is_listening() {
        heard(&mut watch).await;
    }
    watch
}

/// Whatever ends an execution is heard at the other node.
#[tokio::test]
async fn what_one_node_does_is_heard_at_the_other() {
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
            heard(&mut watch).await;
            assert!(watch.is_listening());
        }
    }
}

/// Nothing is listened to for longer than somebody wants to hear it.
#[tokio::test]
async fn a_watch_that_is_dropped_listens_no_longer() {
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

/// Many who begin to wait at once are not served one after the other. The story: each cost a round trip.
#[tokio::test]
async fn channels_are_asked_for_together() {
    let server = Redis::start().expect("a server");
    let hold = Hold { word: "SSUBSCRIBE", times: 20 };
    let relay = Relay::to(server.port(), Some(hold)).await;
    let store = open(&format!("redis://127.0.0.1:{}", relay.port())).await;
    let watches: Vec<Watch> = (0..20)
        .map(|number| store.watch(RecordId::from_bytes([number; 32])).expect("a watch"))
        .collect();
    for mut watch in watches {
        while !watch.is_listening() {
            heard(&mut watch).await;
        }
    }
}

/// Watches that come and go are heard in the order in which they did.
#[tokio::test]
async fn a_watch_after_one_that_left_listens() {
    let server = Redis::start().expect("a server");
    let (one, other) = (open(&server.url()).await, open(&server.url()).await);
    for number in 0..30 {
        let held = lease(&one, number).await;
        let id = RecordId::from_bytes([number; 32]);
        drop(other.watch(id));
        drop(other.watch(id));
        // And one that is listened to already.
        drop(watch(&other, number).await);
        let mut watch = watch(&other, number).await;
        assert_eq!(one.settle(&held, paid()).await.expect("an answer"), Settled::Recorded);
        heard(&mut watch).await;
        assert!(watch.is_listening(), "{number}");
    }
}

/// A host that freezes does not close its connections. The story: it was listened to for ever.
#[tokio::test]
async fn a_server_that_froze_is_not_relied_on() {
    let server = Redis::start().expect("a server");
    let (one, other) = (open(&server.url()).await, open(&server.url()).await);
    let held = lease(&one, 1).await;
    let mut watch = watch(&other, 1).await;
    server.pause().expect("a server to freeze");
    while watch.is_listening() {
        heard(&mut watch).await;
    }
    server.resume().expect("a server");
    while !watch.is_listening() {
        heard(&mut watch).await;
    }
    eventually_async("it is settled", async || {
        matches!(one.settle(&held, paid()).await, Ok(Settled::Recorded))
    })
    .await;
    heard(&mut watch).await;
}

/// A server that goes away is not heard, which is said; and heard again when it is back.
#[tokio::test]
async fn a_server_that_is_back_is_heard_again() {
    let server = Redis::options().setting("appendonly", "yes").start().expect("a server");
    let (one, other) = (open(&server.url()).await, open(&server.url()).await);
    let held = lease(&one, 1).await;
    let mut one_heard = watch(&other, 1).await;
    server.stop().expect("a server to stop");
    while one_heard.is_listening() {
        heard(&mut one_heard).await;
    }
    server.start_again().expect("a server");
    while !one_heard.is_listening() {
        heard(&mut one_heard).await;
    }
    assert_eq!(one.settle(&held, paid()).await.expect("an answer"), Settled::Recorded);
    heard(&mut one_heard).await;
}

/// A record whose slot moves is heard of where it is now.
#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_moves_is_heard_at_its_new_server() {
    let cluster = RedisCluster::start(3, 0, &Redis::options()).expect("a cluster");
    let (one, other) = (open(&cluster.url()).await, open(&cluster.url()).await);
    let mut moved = watch(&other, 7).await;
    // Nothing has to be moved along with it.
    crate::cluster::move_empty_slot(&cluster, 7);
    let held = lease(&one, 7).await;
    // The one who waits looks now and then, and is sent on.
    eventually_async("it is heard again", async || {
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
    heard(&mut moved).await;
}
