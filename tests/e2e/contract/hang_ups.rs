//! Clients that hang up. Trap 3, I9: what was claimed runs to its settlement.

use crate::support::{Call, Reply, Setup, Upstream, eventually};

/// The client hangs up while the upstream works; the outcome is settled and replayed.
#[test]
fn a_client_that_hangs_up_does_not_stop_the_execution() {
    let (gate, upstream) = Upstream::gated(|_| Reply::created(r#"{"charge":"made"}"#));
    let gateway = Setup::before(&upstream).start();
    let connections = |count: f64| {
        eventually("the gateway knows its connections", || {
            (gateway.metrics().find("semel_connections", &[]) == Some(count)).then_some(())
        });
    };
    let first = Call::charge("k").begin(&gateway);
    gate.wait_for(1);
    connections(1.0);
    drop(first);
    connections(0.0);
    // It still runs, and no other attempt may run beside it.
    Call::charge("k").send(&gateway).assert_problem(409, "request_in_progress", true);
    gate.open();
    let replay = eventually("the outcome is settled", || {
        let answer = Call::charge("k").send(&gateway);
        (answer.status != 409).then_some(answer)
    });
    assert!(replay.is_replay());
    assert_eq!((replay.status, replay.text()), (201, r#"{"charge":"made"}"#.to_owned()));
    assert_eq!(upstream.fences("k"), [1]);
}

/// And it is durable: the process may die right after.
#[test]
fn an_outcome_without_waiting_clients_is_durable() {
    let (gate, upstream) = Upstream::gated(|_| Reply::created("{}"));
    let gateway = Setup::before(&upstream).start();
    let first = Call::charge("k").begin(&gateway);
    gate.wait_for(1);
    drop(first);
    gate.open();
    eventually("the outcome is settled", || {
        let labels = [("verb", "settle"), ("answer", "recorded")];
        let settled = gateway.metrics().find("semel_store_answers_total", &labels);
        (settled == Some(1.0)).then_some(())
    });
    let gateway = gateway.kill().start();
    assert!(Call::charge("k").send(&gateway).is_replay());
    assert_eq!(upstream.count(), 1);
}

/// A client that hangs up before its request is complete has asked for nothing.
#[test]
fn half_a_request_executes_nothing() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).start();
    drop(Call::charge("k").begin_in_part(&gateway, 5));
    eventually("the gateway sees that it broke off", || {
        (gateway.metrics().attempts("body_broken") >= 1.0).then_some(())
    });
    assert_eq!(upstream.count(), 0);
    let answer = Call::charge("k").send(&gateway);
    assert_eq!((answer.status, answer.is_replay()), (201, false));
    assert_eq!(upstream.fences("k"), [1]);
}
