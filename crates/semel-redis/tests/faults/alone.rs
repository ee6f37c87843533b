//! One server.

use std::time::Duration;

use semel_core::{Claim, Policy, RecordId, Release};
use semel_redis::OpenError;
use semel_store::{Settled, Store as _, StoreError};
use semel_testserver::Redis;

use crate::waiting::{eventually, eventually_async};
use crate::{assert_replayed, attempt, claim, lease, open, options, paid};

#[tokio::test]
async fn scripts_are_loaded_again_after_a_flush_or_restart() {
    let server = Redis::options().setting("appendonly", "yes").start().expect("a server");
    let store = open(&server.url()).await;
    let one = lease(&store, 1).await;
    server.cli(&["SCRIPT", "FLUSH"]).expect("no scripts");
    assert_eq!(store.settle(&one, paid()).await.expect("an answer"), Settled::Recorded);
    let two = lease(&store, 2).await;
    server.stop().expect("a server to stop");
    server.start_again().expect("a server");
    assert_eq!(store.settle(&two, paid()).await.expect("an answer"), Settled::Recorded);
    assert_replayed(&store, 1).await;
}

#[tokio::test]
async fn a_socket_is_as_good_as_a_port() {
    let server = Redis::start().expect("a server");
    let store = open(&format!("unix://{}", server.socket().display())).await;
    let held = lease(&store, 1).await;
    assert_eq!(store.settle(&held, paid()).await.expect("an answer"), Settled::Recorded);
    assert_replayed(&open(&server.url()).await, 1).await;
}

/// An outage: verbs report reliably that nothing happened, or that it may have.
#[tokio::test]
async fn while_the_server_is_away_verbs_fail_and_then_go_on() {
    let server = Redis::options().setting("appendonly", "yes").start().expect("a server");
    let store = open(&server.url()).await;
    let held = lease(&store, 1).await;
    server.kill().expect("a server to kill");
    // The connection is closed by now, or breaks with this command, which may have been received.
    let _ = claim(&store, 2, 1).await.expect_err("an outage");
    let error = claim(&store, 2, 1).await.expect_err("an outage");
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    server.start_again().expect("a server");
    assert_eq!(store.settle(&held, paid()).await.expect("an answer"), Settled::Recorded);

    server.pause().expect("a server to freeze");
    let error = claim(&store, 2, 1).await.expect_err("no answer");
    assert!(matches!(error, StoreError::TimedOut { .. }), "{error:?}");
    let error = claim(&store, 2, 1).await.expect_err("no answer");
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    server.resume().expect("a server");
    // The command that was sent while it was frozen is executed now: the same claim, repeated.
    eventually_async("it is answered", async || match claim(&store, 2, 1).await {
        Ok(Claim::Execute(lease)) => lease.fence().get() == 1,
        Ok(other) => panic!("{other:?}"),
        // A claim that comes while the connection is given up fails with a passing error.
        Err(error) => !error.is_passing(),
    })
    .await;
}

/// Regression: it was reported as a wrong password.
#[tokio::test]
async fn too_many_clients_are_reported_as_such() {
    let server = Redis::options().setting("requirepass", "secret").start().expect("a server");
    server.cli(&["CONFIG", "SET", "maxclients", "1"]).expect("a limit");
    let taken = std::net::TcpStream::connect(("127.0.0.1", server.port())).expect("a client");
    for url in [format!("redis://:secret@127.0.0.1:{}", server.port()), server.url()] {
        eventually_async("the limit is reported", async || {
            match options(&url).open().await.map(drop) {
                Err(error @ OpenError::Full { .. }) => error.to_string().contains("maxclients"),
                // It was closed before the first command.
                Err(OpenError::Unreachable { .. }) => false,
                other => panic!("{other:?}"),
            }
        })
        .await;
    }
    drop(taken);
    let wrong = options(&format!("redis://:wrong@127.0.0.1:{}", server.port()));
    eventually_async("a wrong password is one", async || {
        matches!(wrong.clone().open().await.map(drop), Err(OpenError::Refused { .. }))
    })
    .await;
}

#[tokio::test]
async fn values_that_are_not_records_are_damage() {
    let server = Redis::start().expect("a server");
    let store = open(&server.url()).await;
    let key = |number: u8| format!("semel:{}", format!("{number:02x}").repeat(32));
    server.cli(&["SET", &key(1), "\u{2}tomorrow"]).expect("a later version");
    server.cli(&["SET", &key(2), "\u{1}cut"]).expect("half a record");
    server.cli(&["RPUSH", &key(3), "a list"]).expect("another type");
    for (number, expected) in [(1, "version 2"), (2, "after 4 bytes"), (3, "another prefix")] {
        let error = claim(&store, number, 1).await.expect_err("damage");
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
        assert!(error.to_string().contains(expected), "{error}");
        let error = store.inspect(RecordId::from_bytes([number; 32])).await.expect_err("damage");
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
    }
}

/// A record of a later version is refused by every verb, with the cure, and left as it is.
#[tokio::test]
async fn a_record_of_a_later_version_is_refused_and_kept() {
    let server = Redis::start().expect("a server");
    let store = open(&server.url()).await;
    let (settled, held) = (lease(&store, 1).await, lease(&store, 2).await);
    assert_eq!(store.settle(&settled, paid()).await.expect("an answer"), Settled::Recorded);
    let key = |number: u8| format!("semel:{}", format!("{number:02x}").repeat(32));
    let value = |number: u8| {
        let digits = "local v = redis.call('GET', KEYS[1]) \
                      return (v:gsub('.', function(c) return string.format('%02x', c:byte()) end))";
        let expires = server.cli(&["PEXPIRETIME", &key(number)]).expect("a moment");
        (server.cli(&["EVAL", digits, "1", &key(number)]).expect("a value"), expires)
    };
    for number in [1, 2] {
        server.cli(&["SETRANGE", &key(number), "0", "\u{2}"]).expect("a later version");
    }
    let before = [value(1), value(2)];
    let refused = |error: StoreError| {
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
        assert!(error.to_string().contains("use the newer version"), "{error}");
    };
    for number in [1, 2] {
        refused(claim(&store, number, 1).await.expect_err("a later version"));
        let id = RecordId::from_bytes([number; 32]);
        refused(store.inspect(id).await.map(drop).expect_err("a later version"));
    }
    for lease in [&settled, &held] {
        refused(store.settle(lease, paid()).await.map(drop).expect_err("a later version"));
        let minute = Duration::from_mins(1);
        refused(store.renew(lease, minute).await.map(drop).expect_err("a later version"));
        for how in [Release::Retry, Release::Hold] {
            refused(store.release(lease, how).await.map(drop).expect_err("a later version"));
        }
    }
    assert_eq!([value(1), value(2)], before);
}

/// Trap 5 and I10: memory is freed by itself.
#[tokio::test]
async fn keys_expire_by_themselves() {
    let server = Redis::start().expect("a server");
    let store = open(&server.url()).await;
    let brief = Policy::builder()
        .lease(Duration::from_millis(50))
        .ttl(Duration::from_millis(100))
        .build()
        .expect("a policy");
    for number in 0..50 {
        store.claim(&attempt(number, 1), &brief).await.expect("an answer");
    }
    eventually("they are gone", || server.cli(&["DBSIZE"]).expect("a number") == "0");
}
