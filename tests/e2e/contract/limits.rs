//! Limits, and clear errors beyond them. Trap 25, I10.

use crate::support::{Call, Gate, Gateway, Reply, Setup, Upstream, eventually};

fn held() -> (Gate, Upstream) {
    let (gate, upstream) = Upstream::gated(|_| Reply::created("{}"));
    (gate, upstream)
}

fn wait_for_waiters(gateway: &Gateway, count: f64) {
    eventually("so many wait", || {
        (gateway.metrics().find("semel_waiters", &[]) == Some(count)).then_some(())
    });
}

/// `max_waiters`: one more is answered as if there were no waiting.
#[test]
fn one_waiter_too_many_does_not_wait() {
    let (gate, upstream) = held();
    let gateway =
        Setup::before(&upstream).policy("in_flight = \"wait\"").limits("max_waiters = 2").start();
    let first = Call::charge("k").begin(&gateway);
    gate.wait_for(1);
    let waiting = [Call::charge("k").begin(&gateway), Call::charge("k").begin(&gateway)];
    wait_for_waiters(&gateway, 2.0);
    let answer = Call::charge("k").send(&gateway);
    answer.assert_problem(409, "request_in_progress", true);
    assert!(answer.retry_after().is_some());
    gate.open();
    assert_eq!(first.answer().status, 201);
    for waiting in waiting {
        assert!(waiting.answer().is_replay());
    }
}

/// `max_executions`: one more is refused before it claims anything.
#[test]
fn one_execution_too_many_is_refused() {
    let (gate, upstream) = held();
    let gateway = Setup::before(&upstream).limits("max_executions = 2").start();
    let running = [Call::charge("k-1").begin(&gateway), Call::charge("k-2").begin(&gateway)];
    gate.wait_for(2);
    let answer = Call::charge("k-3").send(&gateway);
    answer.assert_problem(503, "too_busy", true);
    assert!(answer.retry_after().is_some());
    // What needs no protection is not held up by it.
    gate.open();
    for running in running {
        assert_eq!(running.answer().status, 201);
    }
    eventually("there is a place again", || {
        (Call::charge("k-3").send(&gateway).status == 201).then_some(())
    });
    assert_eq!(upstream.executions("k-3"), 1);
}

/// `max_connections`: one more is refused, whether it has sent anything yet or not.
#[test]
fn one_connection_too_many_is_turned_away() {
    let (gate, upstream) = held();
    let gateway = Setup::before(&upstream).limits("max_connections = 1").start();
    let running = Call::charge("k-1").begin(&gateway);
    gate.wait_for(1);
    for turned_away in [Call::silence(&gateway), Call::charge("k-2").begin(&gateway)] {
        let answer = turned_away.answer();
        answer.assert_problem(503, "too_busy", true);
        assert!(answer.retry_after().is_some());
    }
    gate.open();
    assert_eq!(running.answer().status, 201);
    assert_eq!(upstream.count(), 1);
}

/// `max_upstream_connections`: one more waits for a place, first come, first served.
#[test]
fn a_request_waits_for_a_connection_to_the_upstream() {
    let (gate, upstream) = held();
    let gateway = Setup::before(&upstream).limits("max_upstream_connections = 1").start();
    let first = Call::charge("k-1").begin(&gateway);
    gate.wait_for(1);
    let waiting = Call::charge("k-2").begin(&gateway);
    eventually("it waits", || {
        (gateway.metrics().find("semel_upstream_waiters", &[]) == Some(1.0)).then_some(())
    });
    assert_eq!(gateway.metrics().find("semel_upstream_connections", &[]), Some(1.0));
    // A replay needs no connection, and waits for none.
    gate.open();
    assert_eq!((first.answer().status, waiting.answer().status), (201, 201));
    gate.close();
    let running = Call::charge("k-3").begin(&gateway);
    gate.wait_for(3);
    assert!(Call::charge("k-1").send(&gateway).is_replay());
    gate.open();
    assert_eq!(running.answer().status, 201);
}

/// The wait is bounded by `connect_timeout`, and what was not sent may be sent again at once: the key is free.
#[test]
fn one_upstream_connection_too_many_is_refused_and_its_key_released() {
    let (gate, upstream) = held();
    let gateway = Setup::before(&upstream)
        .limits("max_upstream_connections = 1\nconnect_timeout = \"400ms\"")
        .start();
    let first = Call::charge("k-1").begin(&gateway);
    gate.wait_for(1);
    for _ in 0..2 {
        let answer = Call::charge("k-2").send(&gateway);
        answer.assert_problem(503, "too_busy", true);
        assert!(answer.retry_after().is_some());
        assert!(answer.text().contains("connections to the upstream"), "{}", answer.text());
    }
    let passed = Call::new("GET", "/").send(&gateway);
    passed.assert_problem(503, "too_busy", true);
    let limit = [("limit", "max_upstream_connections")];
    let reached = gateway.metrics().find("semel_limits_reached_total", &limit);
    assert_eq!(reached, Some(3.0));
    gate.open();
    assert_eq!(first.answer().status, 201);
    assert_eq!(Call::charge("k-2").send(&gateway).status, 201);
    assert_eq!(upstream.executions("k-2"), 1);
}

/// Metrics do not grow with what clients send: no path, key or client is ever a label.
#[test]
fn metrics_do_not_grow_with_the_requests() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).memory().route("POST /orders/{id}", "").start();
    let lines = || gateway.ask("/metrics").text().lines().count();
    let call = |number: usize| {
        let path = if number.is_multiple_of(2) {
            format!("/orders/{number}")
        } else {
            format!("/{number}")
        };
        Call::new("POST", &path).key(&format!("k-{number}")).from(&format!("Bearer {number}"))
    };
    for number in 0..2 {
        assert_eq!(call(number).send(&gateway).status, 201);
    }
    let before = lines();
    for number in 2..60 {
        assert_eq!(call(number).send(&gateway).status, 201);
    }
    assert_eq!(lines(), before);
}
