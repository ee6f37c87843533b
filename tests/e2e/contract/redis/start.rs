//! A gateway says how its server may lose records, and does not start on one that it must not use.

use semel_testserver::{Redis, RedisCluster};

use crate::support::{Call, Ended, Setup, Upstream};

/// What a gateway on `url` says that does not start.
fn refused(url: &str, top: &str) -> Ended {
    Setup::before_address(Upstream::absent(11)).on(url).top(top).refused()
}

/// Trap 23: money is not put on a server that forgets or evicts.
#[test]
fn payments_are_not_put_on_a_server_that_may_lose_them() {
    let everysec = [("appendonly", "yes"), ("appendfsync", "everysec")];
    let evicting = [("maxmemory", "100mb"), ("maxmemory-policy", "allkeys-lru")];
    for (settings, said, cure) in [
        (&[][..], "keeps nothing on disk", "appendonly yes"),
        (&everysec[..], "last two seconds", "appendfsync always"),
        (&evicting[..], "deletes records", "maxmemory-policy noeviction"),
    ] {
        let options =
            settings.iter().fold(Redis::options(), |all, (name, value)| all.setting(*name, *value));
        let server = options.start().expect("a server");
        let payments = Setup::before_address(Upstream::absent(12))
            .on(&server.url())
            .policy("preset = \"payments\"");
        payments.refused().assert_failed(1, &["not durable enough", said, cure]);
        refused(&server.url(), "require_durable = true").assert_failed(1, &[said]);
        // An operator may allow it explicitly.
        let upstream = Upstream::start();
        let gateway = Setup::before(&upstream)
            .on(&server.url())
            .top("require_durable = false")
            .policy("preset = \"payments\"\non_missing_scope = \"anonymous\"")
            .start();
        assert_eq!(Call::charge("k").send(&gateway).status, 201);
        let log = gateway.terminate().1;
        assert!(log.contains("WARN") && log.contains(said) && log.contains(cure), "{log}");
    }
}

#[test]
fn payments_are_put_on_a_server_that_keeps_them() {
    let server = crate::support::redis::durable().start().expect("a server");
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream)
        .on(&server.url())
        .policy("preset = \"payments\"\non_missing_scope = \"anonymous\"")
        .start();
    assert_eq!(Call::charge("k").send(&gateway).status, 201);
}

#[test]
fn a_wrong_password_is_refused() {
    let server = Redis::options().setting("requirepass", "right").start().expect("a server");
    let url = |login: &str| format!("redis://{login}127.0.0.1:{}", server.port());
    for login in [":hunter2@", ""] {
        let ended = refused(&url(login), "");
        ended.assert_failed(1, &["refuses us", "check user and password"]);
        assert!(!ended.err.contains("hunter2"), "{ended:?}");
    }
    Setup::before(&Upstream::start()).on(&url(":right@")).start();
}

#[test]
fn a_server_that_is_down_is_refused() {
    let url = format!("redis://u:hunter2@{}", Upstream::absent(13));
    let ended = refused(&url, "");
    ended.assert_failed(1, &["cannot be reached", "is the server up"]);
    assert!(!ended.err.contains("hunter2"), "{ended:?}");
}

#[test]
fn a_replica_is_refused() {
    let master = Redis::start().expect("a server");
    let replica = Redis::options()
        .setting("replicaof", format!("127.0.0.1 {}", master.port()))
        .start()
        .expect("a replica");
    refused(&replica.url(), "").assert_failed(1, &["read only replica", "name the master"]);
}

#[test]
fn one_server_is_not_a_cluster_nor_a_cluster_one_server() {
    let server = Redis::start().expect("a server");
    let url = server.url().replace("redis:", "redis+cluster:");
    refused(&url, "").assert_failed(1, &["does not belong to a cluster", "write redis://"]);
    let cluster = RedisCluster::start(1, 0, &Redis::options()).expect("a cluster");
    let url = cluster.servers()[0].url();
    refused(&url, "").assert_failed(1, &["belongs to a cluster", "write redis+cluster://"]);
}
