//! One gateway whose store is away for longer than the lease: it never executes again what it has executed, or
//! still executes. The last row of "What a crash means" (README).
//!
//! `SEMEL_OUTAGE_TRIES` says how many outages of each kind each test tries.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::store_loss::random;
use crate::support::{
    Answer, Call, Gate, Gateway, Mount, Over, Pending, Reply, Setup, Upstream, eventually,
};

/// Short, so that every outage is longer.
const POLICY: &str = "lease = \"1s\"\nupstream_timeout = \"1m\"";

/// An upstream that holds up each key until the test lets it go on, and counts executions.
struct Work {
    upstream: Upstream,
    gates: Gates,
}

type Gates = Arc<Mutex<HashMap<String, Gate>>>;

/// One request whose work is under way.
struct Running<'a> {
    work: &'a Work,
    key: String,
    pending: Pending,
}

// === impl Work ===

impl Work {
    fn start() -> Self {
        let gates = Gates::default();
        let inside = gates.clone();
        let upstream = Upstream::with(move |seen| {
            let key = seen.key().expect("a key").to_owned();
            if seen.target == "/fill" {
                return Reply::new(201, random(1 << 20));
            }
            gate(&inside, &key).pass();
            Reply::created(&format!(r#"{{"key":"{key}","execution":{}}}"#, seen.execution))
        });
        Self { upstream, gates }
    }

    fn begin(&self, key: String, gateway: &Gateway) -> Running<'_> {
        let pending = Call::charge(&key).begin(gateway);
        gate(&self.gates, &key).wait_for(1);
        Running { work: self, key, pending }
    }
}

fn gate(gates: &Gates, key: &str) -> Gate {
    gates.lock().expect("gates").entry(key.to_owned()).or_default().clone()
}

// === impl Running ===

impl Running<'_> {
    /// Lets the work end, and gives the answer to its client.
    fn end(self) -> Answer {
        gate(&self.work.gates, &self.key).open();
        let answer = self.pending.answer();
        assert_eq!(answer.status, 201, "{}", answer.text());
        answer
    }
}

fn tries() -> usize {
    std::env::var("SEMEL_OUTAGE_TRIES").map_or(1, |tries| tries.parse().expect("a number"))
}

/// How many leases have run out so far.
fn lapses(gateway: &Gateway) -> usize {
    gateway.log().matches("the lease ran out unrenewed").count()
}

/// Retries without pause until `is_over`. Nothing but these answers is right.
fn insist(key: &str, gateway: &Gateway, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let answer = Call::charge(key).send(gateway);
        let code = answer.code();
        let is_right = match answer.status {
            409 => code.as_deref() == Some("request_in_progress"),
            503 => code.as_deref() == Some("idempotency_store_unavailable"),
            status => status == 201 && answer.is_replay(),
        };
        assert!(is_right, "{} {}", answer.status, answer.text());
    }
}

/// One piece of work ends in each outage, and another goes on through it, while clients retry both.
fn assert_executes_once(
    work: &Work,
    gateway: &Gateway,
    outages: usize,
    outage: impl Fn(usize),
    end: impl Fn(usize),
) {
    for number in 0..outages {
        let keys = ["ends", "goes-on"].map(|what| format!("{what}-{number}"));
        let [ends, goes_on] = keys.clone().map(|key| work.begin(key, gateway));
        let before = lapses(gateway);
        outage(number);
        let first = ends.end();
        assert_eq!(first.header("x-idempotency-stored"), Some("false"));
        eventually("both leases have run out", || (lapses(gateway) >= before + 2).then_some(()));
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let over = Over(&is_over);
            let insistent =
                keys.each_ref().map(|key| scope.spawn(|| insist(key, gateway, &is_over)));
            end(number);
            assert_eq!(replayed(&keys[0], gateway).body, first.body);
            let first = goes_on.end();
            assert_eq!(replayed(&keys[1], gateway).body, first.body);
            drop(over);
            for client in insistent {
                client.join().expect("right answers");
            }
        });
        for key in &keys {
            assert_eq!(work.upstream.fences(key), [1], "{key}");
        }
    }
    println!("{outages} outages longer than the lease, each with work ended and going on");
}

fn replayed(key: &str, gateway: &Gateway) -> Answer {
    eventually("it is replayed", || {
        let answer = Call::charge(key).send(gateway);
        (answer.status == 201).then_some(answer)
    })
}

/// The default store on a full disk.
#[test]
fn a_full_disk_executes_nothing_twice() {
    // Each try leaves some large replies behind.
    let disk = Mount::new((64 + 16 * tries() as u64) << 20).expect("a small disk");
    let work = Work::start();
    let gateway =
        Setup::before(&work.upstream).store_in(&disk.path().join("store")).policy(POLICY).start();
    let fill = |number| {
        disk.fill();
        let mut filler = 0;
        // The log has some room of its own.
        eventually("the store refuses", || {
            filler += 1;
            let call = Call::new("POST", "/fill").key(&format!("fill-{number}-{filler}"));
            (call.json("{}").send(&gateway).status == 503).then_some(())
        });
    };
    assert_executes_once(&work, &gateway, tries(), fill, |_| disk.empty());
}

#[cfg(feature = "redis")]
mod full_memory {
    use semel_testserver::{Redis, RedisCluster};

    use super::*;
    #[cfg(feature = "postgres")]
    use crate::support::Tiered;
    use crate::support::{Server, redis};

    /// Only new work is refused: what was begun is renewed, settled and replayed.
    fn executes_nothing_twice(servers: &[Redis], store: &str) {
        let set = |bytes| {
            for server in servers {
                server.cli(&["CONFIG", "SET", "maxmemory", bytes]).expect("a setting");
            }
        };
        let work = Work::start();
        let gateway = Setup::before(&work.upstream).on(store).policy(POLICY).start();
        for number in 0..tries() {
            let keys = ["ends", "goes-on"].map(|what| format!("{what}-{number}"));
            let [ends, goes_on] = keys.clone().map(|key| work.begin(key, &gateway));
            set("1");
            let first = ends.end();
            assert_eq!(first.header("x-idempotency-stored"), None, "{}", gateway.log());
            let replay = Call::charge(&keys[0]).send(&gateway);
            assert_eq!((replay.is_replay(), replay.body), (true, first.body));
            let refused = Call::charge(&format!("new-{number}")).send(&gateway);
            refused.assert_problem(503, "idempotency_store_unavailable", true);
            // A renewal comes with each third of the lease.
            let renewed = renewals(&gateway) + 4.0;
            eventually("the lease is renewed", || (renewals(&gateway) >= renewed).then_some(()));
            let in_progress = Call::charge(&keys[1]).send(&gateway);
            in_progress.assert_problem(409, "request_in_progress", true);
            set("0");
            let first = goes_on.end();
            assert_eq!(replayed(&keys[1], &gateway).body, first.body);
            for key in &keys {
                assert_eq!(work.upstream.fences(key), [1], "{key}");
            }
        }
        assert_eq!(lapses(&gateway), 0);
    }

    fn renewals(gateway: &Gateway) -> f64 {
        let labels = [("verb", "renew"), ("answer", "renewed")];
        gateway.metrics().find("semel_store_answers_total", &labels).unwrap_or(0.0)
    }

    #[test]
    fn of_a_server_executes_nothing_twice() {
        let server = redis::durable().start().expect("a server");
        executes_nothing_twice(std::slice::from_ref(&server), &server.store());
    }

    #[test]
    fn of_a_cluster_executes_nothing_twice() {
        let cluster = <RedisCluster as Server>::start();
        executes_nothing_twice(cluster.servers(), &cluster.store());
    }

    /// The story: one client filled the memory, and the load balancers took every gateway out, though replays and
    /// settlements were served; one that was started again ended at once.
    #[test]
    fn of_a_server_takes_no_gateway_out() {
        let server = redis::durable().start().expect("a server");
        let upstream = Upstream::start();
        let setup = || Setup::before(&upstream).on(&server.url()).policy(POLICY);
        let gateway = setup().start();
        let first = Call::charge("k").send(&gateway);
        server.cli(&["CONFIG", "SET", "maxmemory", "1"]).expect("no room");
        Call::charge("new").send(&gateway).assert_problem(
            503,
            "idempotency_store_unavailable",
            true,
        );
        let assert_ready = |gateway: &Gateway| {
            let ready = gateway.ask("/ready");
            assert_eq!(ready.status, 200, "{ready:?}");
            let body = String::from_utf8_lossy(&ready.body).into_owned();
            assert!(body.contains("memory is full") && body.contains("raise maxmemory"), "{body}");
        };
        assert_ready(&gateway);
        let log = gateway.terminate().1;
        assert_eq!(log.matches("redis_is_full").count(), 1, "{log}");
        let gateway = setup().start();
        assert_ready(&gateway);
        let replay = Call::charge("k").send(&gateway);
        assert_eq!((replay.is_replay(), replay.body), (true, first.body));
        let log = gateway.terminate().1;
        assert_eq!(log.matches("redis_is_full").count(), 1, "{log}");
    }

    /// The memory of the Redis before PostgreSQL, which is away meanwhile.
    #[cfg(feature = "postgres")]
    #[test]
    fn of_the_copies_executes_nothing_twice() {
        let servers = <Tiered as Server>::start();
        let work = Work::start();
        let gateway = Setup::before(&work.upstream).on(&servers.store()).policy(POLICY).start();
        let set = |bytes| {
            servers.near.cli(&["CONFIG", "SET", "maxmemory", bytes]).expect("a setting");
        };
        let outage = |_| {
            set("1");
            servers.truth.kill().expect("a server to kill");
        };
        let end = |_| servers.truth.start_again().expect("a server");
        assert_executes_once(&work, &gateway, tries(), outage, end);
    }
}

#[cfg(any(feature = "postgres", feature = "redis"))]
mod servers {
    use super::*;
    use crate::support::Server;

    const KINDS: usize = 3;

    /// Killed, frozen and stopped in turn.
    fn outage<S: Server>(server: &S, number: usize) {
        match number % KINDS {
            0 => server.kill(),
            1 => server.pause(),
            _ => server.stop(),
        }
    }

    fn end<S: Server>(server: &S, number: usize) {
        match number % KINDS {
            1 => server.resume(),
            _ => server.start_again(),
        }
    }

    fn an_outage_executes_nothing_twice<S: Server>() {
        let (server, work) = (S::start(), Work::start());
        let gateway = Setup::before(&work.upstream).on(&server.store()).policy(POLICY).start();
        assert_executes_once(
            &work,
            &gateway,
            tries() * KINDS,
            |number| outage(&server, number),
            |number| end(&server, number),
        );
    }

    crate::shared::on_each_server!(an_outage_executes_nothing_twice);
}
