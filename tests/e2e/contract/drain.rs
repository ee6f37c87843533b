//! SIGTERM: requests in flight complete, new connections are refused, and the exit code is 0.

use std::net::TcpStream;

use rustix::process::Signal;

use crate::support::{Call, Gate, Gateway, Reply, Setup, Upstream, eventually};

fn held() -> (Gate, Upstream) {
    let (gate, upstream) =
        Upstream::gated(|seen| Reply::created(&format!(r#"{{"charge":{}}}"#, seen.number)));
    (gate, upstream)
}

/// Tells it to stop, and waits until it does.
fn drain(gateway: &Gateway) {
    gateway.signal(Signal::TERM);
    eventually("it drains", || (gateway.ask("/ready").status == 503).then_some(()));
}

#[test]
fn a_request_that_runs_is_answered_and_settled() {
    let (gate, upstream) = held();
    let gateway = Setup::before(&upstream).start();
    let setup = gateway.setup().clone();
    let running = Call::charge("k").begin(&gateway);
    let passed = Call::new("GET", "/slow").begin(&gateway);
    gate.wait_for(2);
    drain(&gateway);
    assert_eq!(gateway.ask("/health").status, 200, "it is alive while it drains");
    gate.open();
    let answer = running.answer();
    assert_eq!((answer.status, passed.answer().status), (201, 201));
    let (status, _) = gateway.ended();
    assert_eq!(status.code(), Some(0));
    let gateway = setup.start();
    let replay = Call::charge("k").send(&gateway);
    assert_eq!((replay.is_replay(), replay.body), (true, answer.body));
    assert_eq!(upstream.executions("k"), 1);
}

#[test]
fn new_connections_are_refused_while_draining() {
    let (gate, upstream) = held();
    let gateway = Setup::before(&upstream).start();
    let running = Call::charge("k").begin(&gateway);
    gate.wait_for(1);
    drain(&gateway);
    eventually("it listens no more", || {
        TcpStream::connect(gateway.listen()).is_err().then_some(())
    });
    gate.open();
    assert_eq!(running.answer().status, 201);
    assert!(gateway.ended().0.success());
    assert_eq!(upstream.count(), 1);
}

/// Connections without a request do not hold it up.
#[test]
fn idle_connections_do_not_hold_it_up() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).start();
    let idle = TcpStream::connect(gateway.listen()).expect("a connection");
    let used = Call::charge("k").begin(&gateway);
    eventually("both are served", || {
        (gateway.metrics().find("semel_connections", &[]) == Some(2.0)).then_some(())
    });
    let began = crate::support::now();
    let (status, _) = gateway.terminate();
    assert_eq!(status.code(), Some(0));
    assert!(began.elapsed().as_secs() < 10, "it waited for idle connections");
    drop((idle, used));
}

/// A client that hung up left an execution behind (I9): it is settled before the end.
#[test]
fn a_detached_execution_is_settled_before_exit() {
    let (gate, upstream) = held();
    let gateway = Setup::before(&upstream).start();
    let setup = gateway.setup().clone();
    let running = Call::charge("k").begin(&gateway);
    gate.wait_for(1);
    drop(running);
    drain(&gateway);
    gate.open();
    assert_eq!(gateway.ended().0.code(), Some(0));
    let gateway = setup.start();
    assert!(Call::charge("k").send(&gateway).is_replay());
    assert_eq!(upstream.executions("k"), 1);
}

/// `shutdown_timeout`: the end comes, also if the upstream never answers, and says that work was cut
/// off.
#[test]
fn the_drain_timeout_ends_the_process() {
    let upstream = Upstream::with(|_| Reply::Hangs);
    let gateway = Setup::before(&upstream).limits("shutdown_timeout = \"200ms\"").start();
    let stuck = Call::charge("k").begin(&gateway);
    eventually("it executes", || (upstream.count() == 1).then_some(()));
    let began = crate::support::now();
    let (status, log) = gateway.terminate();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(began.elapsed().as_secs() < 15, "{log}");
    drop(stuck);
}
