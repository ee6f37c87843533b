//! Redis before PostgreSQL: whatever becomes of Redis costs speed, never correctness.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use semel_testserver::Redis;

use crate::support::{Call, Server, Setup, Tiered, Upstream, eventually};

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
    // Nobody but Redis can know.
    servers.truth.pause().expect("a server to freeze");
    let replay = Call::charge("k").send(&other);
    assert!(replay.is_replay() && replay.body == first.body);
    let different = Call::charge("k").json("{}").send(&other);
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
    const KEYS: usize = 300;
    let servers = <Tiered as Server>::start();
    let upstream = Upstream::start();
    let gateways = pair(&upstream, &servers);
    let (done, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for client in 0..4 {
            let (gateways, done, upstream) = (&gateways, &done, &upstream);
            scope.spawn(move || {
                for number in (client..KEYS).step_by(4) {
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
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        scope.spawn(|| {
            let mut faults = 0;
            while !is_over.load(Ordering::Relaxed) {
                match faults % 4 {
                    0 | 2 => drop(servers.near.cli(&["FLUSHALL"]).expect("an empty server")),
                    1 => {
                        servers.near.kill().expect("a server to kill");
                        servers.near.start_again().expect("a server");
                    }
                    _ => {
                        servers.near.pause().expect("a server to freeze");
                        thread::sleep(Duration::from_millis(300));
                        servers.near.resume().expect("a server");
                    }
                }
                faults += 1;
                thread::sleep(Duration::from_millis(50));
            }
            assert!(faults >= 8, "only {faults} faults");
        });
        eventually("all are done", || (done.load(Ordering::Relaxed) == KEYS).then_some(()));
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(upstream.count(), KEYS);
}
