//! The server goes away while gateways serve, and comes back.

use std::thread;
use std::time::{Duration, Instant};

use super::on_each_server;
use crate::support::{Call, Gateway, Reply, Server, Setup, Upstream, eventually};

on_each_server!(
    while_the_server_is_down_requests_are_refused_and_then_served_again,
    while_the_server_is_frozen_the_breaker_is_open,
    two_hundred_requests_in_an_outage_do_not_each_wait_for_the_server,
    an_outcome_that_cannot_be_stored_is_returned_and_settled_later,
);

/// A server of its own, and a gateway that has settled `kept`.
pub(crate) fn served<S: Server>() -> (S, Upstream, Gateway) {
    let server = S::start();
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream)
        .on(&server.store())
        .top("log = \"debug\"")
        .route("POST /open", "on_store_down = \"open\"")
        .start();
    for _ in 0..3 {
        assert_eq!(Call::charge("kept").send(&gateway).status, 201);
    }
    (server, upstream, gateway)
}

pub(crate) fn wait_until_ready(gateway: &Gateway) {
    eventually("it is ready again", || (gateway.ask("/ready").status == 200).then_some(()));
}

/// Waits until `/ready` says why not, with `part` in it.
pub(crate) fn wait_until_not_ready(gateway: &Gateway, part: &str) {
    eventually(part, || {
        let answer = gateway.ask("/ready");
        (answer.status == 503 && answer.text().contains(part)).then_some(())
    });
}

/// Row "store unreachable": nothing is executed, and what is known to be settled is still replayed.
pub(crate) fn assert_refused(upstream: &Upstream, gateway: &Gateway) {
    let before = upstream.count();
    for number in 0..20 {
        let answer = Call::charge(&format!("away-{number}")).send(gateway);
        answer.assert_problem(503, "idempotency_store_unavailable", true);
        assert!(answer.retry_after().is_some());
    }
    assert!(Call::charge("kept").send(gateway).is_replay());
    assert_eq!(upstream.count(), before);
    assert_eq!(gateway.ask("/health").status, 200);
}

/// It goes on by itself. No key was used up by an attempt that was refused.
pub(crate) fn assert_served(upstream: &Upstream, gateway: &Gateway) {
    for number in 0..20 {
        let key = format!("away-{number}");
        let answer = eventually("it is served", || {
            let answer = Call::charge(&key).send(gateway);
            // A claim whose answer was lost is handed back in a moment.
            (![409, 503].contains(&answer.status)).then_some(answer)
        });
        assert_eq!((answer.status, answer.is_replay()), (201, false));
        assert_eq!(upstream.executions(&key), 1);
    }
}

fn wait_until_logged(gateway: &Gateway, line: &str) {
    eventually(line, || gateway.log().contains(line).then_some(()));
}

/// An operator restarts the server.
fn while_the_server_is_down_requests_are_refused_and_then_served_again<S: Server>() {
    let (server, upstream, gateway) = served::<S>();
    for _ in 0..2 {
        server.stop();
        wait_until_not_ready(&gateway, "the store is not ready");
        assert_refused(&upstream, &gateway);
        wait_until_not_ready(&gateway, "Connection refused");
        let open = Call::new("POST", "/open").key("o").json("{}").send(&gateway);
        assert_eq!((open.status, open.header("x-idempotency-bypassed")), (201, Some("true")));
        wait_until_logged(&gateway, "store health check failed");
        server.start_again();
        wait_until_ready(&gateway);
    }
    assert_served(&upstream, &gateway);
    wait_until_logged(&gateway, "store health check recovered");
    assert_eq!(gateway.terminate().0.code(), Some(0));
}

/// Trap 14: connections stay open and the server does not answer. After a few timeouts the breaker is
/// open, and requests fail at once.
fn while_the_server_is_frozen_the_breaker_is_open<S: Server>() {
    let (server, upstream, gateway) = served::<S>();
    server.pause();
    let before = upstream.count();
    wait_until_not_ready(&gateway, "circuit breaker is open");
    let answer = Call::charge("frozen").send(&gateway);
    answer.assert_problem(503, "idempotency_store_unavailable", true);
    assert!(Call::charge("kept").send(&gateway).is_replay());
    assert_eq!(upstream.count(), before);
    server.resume();
    wait_until_ready(&gateway);
    assert_served(&upstream, &gateway);
    assert_eq!(gateway.terminate().0.code(), Some(0));
}

/// Trap 14, for a fleet under load: all requests fail at once, except the few that probe.
#[expect(clippy::disallowed_methods, reason = "held against the time that all would have waited")]
fn two_hundred_requests_in_an_outage_do_not_each_wait_for_the_server<S: Server>() {
    const REQUESTS: u32 = 200;
    const CLIENTS: u32 = 8;
    /// How long a gateway waits for an answer of its store.
    const PATIENCE: Duration = Duration::from_secs(2);
    let (server, upstream) = (S::start(), Upstream::start());
    let gateways = [(); 3].map(|()| Setup::before(&upstream).on(&server.store()).start());
    server.pause();
    let began = Instant::now();
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let gateways = &gateways;
            scope.spawn(move || {
                for number in (client..REQUESTS).step_by(CLIENTS as usize) {
                    let gateway = &gateways[number as usize % gateways.len()];
                    let answer = Call::charge(&format!("outage-{number}")).send(gateway);
                    answer.assert_problem(503, "idempotency_store_unavailable", true);
                }
            });
        }
    });
    let if_all_had_waited = PATIENCE * REQUESTS / CLIENTS;
    let took = began.elapsed();
    assert!(took < if_all_had_waited / 3, "it took {took:?}");
    assert_eq!(upstream.count(), 0);
    server.resume();
    gateways.iter().for_each(wait_until_ready);
}

/// I6: the server is lost after the execution. The client gets its outcome, the work is not executed again,
/// and the outcome is settled when the server is back.
fn an_outcome_that_cannot_be_stored_is_returned_and_settled_later<S: Server>() {
    let server = S::start();
    let (gate, upstream) = Upstream::gated(|_| Reply::created("{}"));
    let policy = "lease = \"10m\"\nupstream_timeout = \"1m\"";
    let gateway = Setup::before(&upstream).on(&server.store()).policy(policy).start();
    let running = Call::charge("k").begin(&gateway);
    gate.wait_for(1);
    server.kill();
    gate.open();
    let first = running.answer();
    assert_eq!((first.status, first.header("x-idempotency-stored")), (201, Some("false")));
    server.start_again();
    let replay = eventually("the outcome is settled after all", || {
        let answer = Call::charge("k").send(&gateway);
        (answer.status == 201).then_some(answer)
    });
    assert!(replay.is_replay() && replay.body == first.body);
    assert_eq!(upstream.fences("k"), [1]);
}
