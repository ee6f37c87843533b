//! Redis before another store: it may lose copies and time, and nothing else.

use std::sync::Arc;

use semel_core::{Claim, Policy, RecordId};
use semel_redis::RedisReplayCache;
use semel_store::{Clock, MemoryStore, ReplayCache as _, Settled, SteadyClock, Store as _, Tiered};
use semel_testserver::Redis;

use crate::relay::Relay;
use crate::waiting::eventually_async;
use crate::{attempt, options, paid};

type Store = Tiered<RedisReplayCache, MemoryStore>;

fn near(url: &str, truth: &str) -> RedisReplayCache {
    RedisReplayCache::connect(options(url), truth)
}

fn tiered(url: &str, truth: &str) -> Store {
    let clock: Arc<dyn Clock> = Arc::new(SteadyClock::start());
    Tiered::new(near(url, truth), MemoryStore::with_clock(clock.clone()), clock)
}

async fn claim(store: &Store, number: u8, owner: u128) -> Claim {
    store.claim(&attempt(number, owner), &Policy::default()).await.expect("an answer")
}

async fn settle(store: &Store, number: u8) {
    match claim(store, number, 1).await {
        Claim::Execute(lease) => {
            assert_eq!(store.settle(&lease, paid()).await.expect("an answer"), Settled::Recorded);
        }
        other => panic!("{number}: {other:?}"),
    }
}

/// The number of copies.
fn copies(server: &Redis) -> usize {
    let keys = server.cli(&["KEYS", "semel:copy:*"]).expect("keys");
    keys.lines().filter(|line| !line.is_empty()).count()
}

/// Waits until copies are made, which begins when Redis was connected to.
async fn copied(store: &Store, server: &Redis, number: u8) {
    settle(store, number).await;
    let before = copies(server);
    eventually_async("it is copied", async || {
        let _ = claim(store, number, 2).await;
        copies(server) > before
    })
    .await;
}

/// Connections are accepted and nothing is answered: from the start, and after a while.
#[tokio::test]
async fn a_black_hole_costs_speed_only() {
    let server = Redis::start().expect("a server");
    let relay = Relay::to(server.port(), None).await;
    relay.answers(false);
    let store = tiered(&format!("redis://127.0.0.1:{}", relay.port()), "a");
    for number in 0..5 {
        settle(&store, number).await;
        assert!(matches!(claim(&store, number, 2).await, Claim::Replay { .. }), "{number}");
    }
    relay.answers(true);
    copied(&store, &server, 5).await;
    relay.answers(false);
    for number in 10..20 {
        settle(&store, number).await;
        assert!(matches!(claim(&store, number, 2).await, Claim::Replay { .. }), "{number}");
    }
    relay.answers(true);
    copied(&store, &server, 20).await;
}

/// Two truths, such as two databases, behind one Redis: what one has settled is new to the other.
#[tokio::test]
async fn copies_of_another_truth_are_not_found() {
    let server = Redis::start().expect("a server");
    let (one, other) = (tiered(&server.url(), "one"), tiered(&server.url(), "other"));
    copied(&one, &server, 1).await;
    copied(&other, &server, 2).await;
    assert!(matches!(claim(&other, 1, 3).await, Claim::Execute(_)));
    assert!(matches!(claim(&one, 2, 3).await, Claim::Execute(_)));
    // Another gateway of the same truth finds it, in the copy alone.
    let again = near(&server.url(), "one");
    eventually_async("it is found", async || {
        matches!(again.get(RecordId::from_bytes([1; 32])).await, Ok(Some(_)))
    })
    .await;
}

/// Regression: the health check used a key that is not a copy's.
#[tokio::test]
async fn a_user_that_may_touch_copies_alone_is_enough() {
    let server = Redis::start().expect("a server");
    let acl =
        ["ACL", "SETUSER", "near", "on", ">secret", "~semel:copy:*", "&semel:copy:*", "+@all"];
    server.cli(&acl).expect("a user");
    let store = tiered(&format!("redis://near:secret@127.0.0.1:{}", server.port()), "a");
    copied(&store, &server, 1).await;
}

/// Regression: copies that a full server refused blocked those that it has.
#[tokio::test]
async fn a_full_server_still_answers_with_what_it_has() {
    let server = Redis::start().expect("a server");
    let other = tiered(&server.url(), "a");
    copied(&other, &server, 1).await;
    // The primary store has no such record: only the copy can answer.
    let store = tiered(&server.url(), "a");
    copied(&store, &server, 2).await;
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]).expect("no room");
    let mut leases = Vec::new();
    for number in 10..20 {
        match claim(&store, number, 1).await {
            Claim::Execute(lease) => leases.push(lease),
            other => panic!("{other:?}"),
        }
    }
    for lease in &leases {
        assert_eq!(store.settle(lease, paid()).await.expect("an answer"), Settled::Recorded);
    }
    eventually_async("copies are refused", async || {
        let errors = server.cli(&["INFO", "errorstats"]).expect("counts");
        let count = errors.lines().find_map(|line| line.strip_prefix("errorstat_OOM:count="));
        count.and_then(|count| count.trim().parse::<u32>().ok()).is_some_and(|count| count >= 3)
    })
    .await;
    assert!(matches!(claim(&store, 1, 2).await, Claim::Replay { .. }));
}

/// It writes nothing, so a full memory does not matter.
#[tokio::test]
async fn a_full_server_tells_those_who_wait() {
    let server = Redis::start().expect("a server");
    let (near, other) = (near(&server.url(), "a"), near(&server.url(), "a"));
    let id = attempt(1, 1).id();
    eventually_async("it is connected", async || {
        near.get(id).await.is_ok() && other.get(id).await.is_ok()
    })
    .await;
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]).expect("no room");
    near.notify(id).await.expect("a notification");
    // Also on a new connection.
    let late = self::near(&server.url(), "a");
    eventually_async("it is connected", async || late.get(id).await.is_ok()).await;
}
