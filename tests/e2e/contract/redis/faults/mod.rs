//! A fleet of three gateways, clients that retry, and faults of all kinds while they do.
//!
//! Every execution is written down by the upstream, every answer by its client, every fault with the time
//! it took. Then the history is checked:
//!
//! - under `hold` no key is executed twice;
//! - under `reexecute` every further execution is explained by a fault between it and the one before;
//! - a key has one answer: all clients that got a recorded outcome got the same one, and so do all
//!   requests at the end.

mod fleet;
mod history;
mod nemesis;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use semel_testserver::{Redis, RedisCluster};

use crate::support::{Call, Over, Reply, Server, Upstream, now};

use fleet::Fleet;
use history::{History, Response};
use nemesis::{Breakable, Nemesis};

const CLIENTS: usize = 8;
const FAULTS: usize = 10;
/// Each policy has a path of its own.
const PATHS: [&str; 2] = ["/hold", "/reexecute"];
const LEASE: Duration = Duration::from_secs(1);

#[test]
fn a_fleet_on_one_server() {
    let server = <Redis as Server>::start();
    let store = server.store();
    run(&server, &store);
}

/// With a replica for each write: the one that is promoted has all that was acknowledged.
///
/// No replica is promoted unless it is asked to take over. The story: on a busy machine a master stood still for a
/// second, was replaced, and keys were executed again without a fault of ours.
#[test]
fn a_fleet_on_a_cluster() {
    // Voters refuse for twice the timeout after a vote about the same master, so it must not be long.
    let options = crate::support::redis::durable()
        .setting("cluster-node-timeout", "6000")
        .setting("cluster-replica-no-failover", "yes");
    let cluster = RedisCluster::start(3, 1, &options).expect("a cluster");
    let store = format!("{}&wait_replicas=1", cluster.store());
    run(&cluster, &store);
}

fn run<S: Breakable>(server: &S, store: &str) {
    let history = History::default();
    let upstream = upstream(&history);
    let fleet = Fleet::start(&upstream, store);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (fleet, history, is_over) = (&fleet, &history, &is_over);
            scope.spawn(move || {
                for number in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    serve(fleet, history, is_over, &format!("c{client}-{number}"), number);
                }
            });
        }
        let _over = Over(&is_over);
        Nemesis::new(&fleet, server, &history).strike(FAULTS);
    });
    let keys = history.keys();
    for (path, key) in &keys {
        final_response(&fleet, &history, path, key);
    }
    history.check();
    println!("{}", history.summary());
    assert!(keys.len() > 100, "only {} keys were tried", keys.len());
    assert!(history.again() > 0, "nothing was executed again: the faults did not bite");
}

/// Works for a while, and tells which execution it was.
fn upstream(history: &History) -> Upstream {
    let history = history.clone();
    Upstream::with(move |seen| {
        let key = seen.key().unwrap_or_default().to_owned();
        let began = now();
        // Some work is longer than a lease, and renewed.
        let long = key.ends_with(['4', '7']);
        thread::sleep(if long { LEASE * 2 } else { Duration::from_millis(5) });
        history.executed(&seen.target, &key, began);
        Reply::created(&format!(r#"{{"key":"{key}","execution":{}}}"#, seen.execution))
    })
}

/// A client that wants one thing done: it tries again, at another gateway each time.
fn serve(fleet: &Fleet, history: &History, is_over: &AtomicBool, key: &str, number: usize) {
    let path = PATHS[number % PATHS.len()];
    let call = Call::new("POST", path).key(key).json(r#"{"amount":100}"#);
    for retry in 0.. {
        let response = match call.try_send(fleet.address(number + retry)) {
            Ok(answer) => Response::of(&answer),
            Err(_) => Response::Nothing,
        };
        history.responded(path, key, &response);
        if response.is_final() || is_over.load(Ordering::Relaxed) {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// At the end every gateway returns the same for every key.
fn final_response(fleet: &Fleet, history: &History, path: &str, key: &str) {
    let call = Call::new("POST", path).key(key).json(r#"{"amount":100}"#);
    for gateway in 0..fleet.len() {
        let response = crate::support::eventually("a final response", || {
            let response = Response::of(&call.try_send(fleet.address(gateway)).ok()?);
            response.is_final().then_some(response)
        });
        history.responded(path, key, &response);
    }
}
