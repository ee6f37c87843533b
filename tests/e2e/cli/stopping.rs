#[cfg(feature = "postgres")]
use std::net::TcpListener;
use std::thread;

use rustix::process::Signal;

use crate::support::{Gateway, Upstream, eventually, get, post};
#[cfg(feature = "postgres")]
use crate::support::{Running, semel};

fn draining(gateway: &Gateway) {
    eventually("draining", || (gateway.ready() == Some(503)).then_some(()));
}

#[test]
fn a_request_that_runs_is_answered_before_the_end() {
    for signal in [Signal::TERM, Signal::INT] {
        let upstream = Upstream::held();
        let mut gateway = Gateway::start(upstream.address, &[], &[]);
        let listen = gateway.listen;
        let client = thread::spawn(move || post(listen, "/orders", Some("slow")));
        upstream.arrival();
        gateway.process.signal(signal);
        draining(&gateway);
        assert!(get(gateway.listen, "/").is_err(), "a new connection was accepted");
        upstream.let_go();
        let response = client.join().expect("a client").expect("an answer");
        assert_eq!(response.status, 201, "{response:?}");
        assert_eq!(gateway.process.exit_code(), Some(0));
        let said = gateway.process.err.all();
        assert!(said.contains("draining: no new connections"), "{said}");
        assert!(said.contains("all requests were completed"), "{said}");
    }
}

#[test]
fn requests_past_the_drain_timeout_are_cut_off_and_reported() {
    let upstream = Upstream::held();
    let limit = [("SEMEL_LIMITS_SHUTDOWN_TIMEOUT", "100ms")];
    let mut gateway = Gateway::start(upstream.address, &[], &limit);
    let listen = gateway.listen;
    let client = thread::spawn(move || post(listen, "/orders", Some("slow")));
    upstream.arrival();
    gateway.process.signal(Signal::TERM);
    assert_eq!(gateway.process.exit_code(), Some(1));
    let said = gateway.process.err.all();
    assert!(said.contains("WARN") && said.contains("this work was cut off"), "{said}");
    // Its client learns of it, one way or another.
    drop(client.join().expect("a client"));
}

#[test]
fn a_second_signal_ends_at_once() {
    let upstream = Upstream::held();
    let mut gateway = Gateway::start(upstream.address, &[], &[]);
    let listen = gateway.listen;
    let client = thread::spawn(move || post(listen, "/orders", Some("slow")));
    upstream.arrival();
    gateway.process.signal(Signal::TERM);
    draining(&gateway);
    gateway.process.signal(Signal::INT);
    assert_eq!(gateway.process.exit_code(), Some(1));
    let said = gateway.process.err.all();
    assert!(said.contains("stopped at once") && said.contains("SIGINT"), "{said}");
    drop(client.join().expect("a client"));
}

/// It need not wait for a database that does not answer.
#[cfg(feature = "postgres")]
#[test]
fn a_gateway_that_still_starts_ends_at_once() {
    let database = TcpListener::bind("127.0.0.1:0").expect("a port");
    let store = format!("postgres://u:p@{}/d", database.local_addr().expect("an address"));
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = semel(directory.path(), &["gateway", "--upstream", "http://127.0.0.1:1"]);
    command.args(["--listen", "127.0.0.1:0", "--admin", "off", "--store", &store]);
    let mut process = Running::start(command);
    let _silent = database.accept().expect("a gateway that connects");
    process.signal(Signal::TERM);
    assert_eq!(process.exit_code(), Some(0));
    assert!(process.err.all().contains("stopped before it had started"));
}
