//! Redis before PostgreSQL: whatever becomes of Redis costs speed, never correctness.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use semel_testserver::Redis;

use crate::support::{Call, Over, Server, Setup, Tiered, Upstream, eventually};

/// Without memories of their own, so that Redis is asked.
fn pair(upstream: &Upstream, servers: &Tiered) -> [crate::support::Gateway; 2] {
    let store = servers.store();
    let start = || Setup::before(upstream).on(&store).limits("cache_bytes = 0").start();
    [start(), start()]
}

fn copies(redis: &Redis) -> usize {
    redis.cli(&["DBSIZE"]).expect("a number").parse().expect("a number")
}

#[test]
fn replays_come_from_redis() {
    let servers = <Tiered as Server>::start();
    let upstream = Upstream::start();
    let [one, other] = pair(&upstream, &servers);
    let first = Call::charge("k").send(&one);
    eventually("a copy", || (copies(&servers.near) == 1).then_some(()));
    // Only Redis can know.
    servers.truth.pause().expect("a server to freeze");
    let replay = eventually("an answer from Redis", || {
        let answer = Call::charge("k").send(&other);
        (answer.status != 503).then_some(answer)
    });
    assert!(replay.is_replay() && replay.body == first.body);
    let different = eventually("an answer from Redis", || {
        let answer = Call::charge("k").json("{}").send(&other);
        (answer.status != 503).then_some(answer)
    });
    different.assert_problem(409, "idempotency_payload_mismatch", false);
    servers.truth.resume().expect("a server");
    assert_eq!(upstream.count(), 1);
}

/// A gateway starts without its Redis, and uses it when it comes.
#[test]
fn redis_may_come_later() {
    let servers = <Tiered as Server>::start();
    servers.near.stop().expect("a server to stop");
    let upstream = Upstream::start();
    let [one, other] = pair(&upstream, &servers);
    assert_eq!(Call::charge("k").send(&one).status, 201);
    assert!(Call::charge("k").send(&other).is_replay());
    servers.near.start_again().expect("a server");
    eventually("a copy", || {
        assert!(Call::charge("k").send(&other).is_replay());
        (copies(&servers.near) == 1).then_some(())
    });
    assert_eq!(upstream.count(), 1);
}

/// Trap 23, fault test: Redis is emptied, killed, frozen and restarted under load. No key is executed
/// twice, and every answer of a key is the same.
#[test]
fn redis_may_be_emptied_killed_and_frozen_under_load() {
    let servers = <Tiered as Server>::start();
    let upstream = Upstream::start();
    let gateways = pair(&upstream, &servers);
    let (keys, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for client in 0..4 {
            let (gateways, keys, is_over, upstream) = (&gateways, &keys, &is_over, &upstream);
            scope.spawn(move || {
                for number in (client..).step_by(4) {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    keys.fetch_add(1, Ordering::Relaxed);
                    try_key(upstream, gateways, number);
                }
            });
        }
        let _over = Over(&is_over);
        for turn in 0..12 {
            strike(&servers.near, turn);
            thread::sleep(Duration::from_millis(50));
        }
    });
    let keys = keys.into_inner();
    assert!(keys > 50, "only {keys} keys");
    assert_eq!(upstream.count(), keys);
}

fn try_key(upstream: &Upstream, gateways: &[crate::support::Gateway; 2], number: usize) {
    let key = format!("k-{number}");
    let mut bodies = Vec::new();
    for retry in 0..6 {
        let answer = Call::charge(&key).send(&gateways[(number + retry) % 2]);
        assert_eq!(answer.status, 201, "{}", answer.text());
        assert_eq!(answer.is_replay(), retry > 0);
        bodies.push(answer.body);
    }
    assert!(bodies.iter().all(|body| *body == bodies[0]), "{key}");
    assert_eq!(upstream.executions(&key), 1);
}

fn strike(redis: &Redis, turn: usize) {
    match turn % 4 {
        0 | 2 => drop(redis.cli(&["FLUSHALL"]).expect("an empty server")),
        1 => {
            redis.kill().expect("a server to kill");
            redis.start_again().expect("a server");
        }
        _ => {
            redis.pause().expect("a server to freeze");
            thread::sleep(Duration::from_millis(300));
            redis.resume().expect("a server");
        }
    }
}
