use std::io;
#[cfg(feature = "postgres")]
use std::net::TcpListener;
use std::thread::{self, JoinHandle};

use rustix::process::Signal;

use crate::support::{Answer, Call, Gateway, before, eventually, held, post, ready};
#[cfg(feature = "postgres")]
use crate::support::{Process, semel};

fn draining(gateway: &Gateway) {
    eventually("draining", || (ready(gateway) == Some(503)).then_some(()));
}

/// A request that is sent and not yet answered.
fn slow(gateway: &Gateway) -> JoinHandle<io::Result<Answer>> {
    let listen = gateway.listen();
    thread::spawn(move || post("/orders", Some("slow")).try_send(listen))
}

#[test]
fn a_request_that_runs_is_answered_before_the_end() {
    for signal in [Signal::TERM, Signal::INT] {
        let (gate, upstream) = held();
        let gateway = before(&upstream).start_unready();
        let client = slow(&gateway);
        gate.wait_for(1);
        gateway.signal(signal);
        draining(&gateway);
        assert!(
            Call::new("GET", "/").try_send(gateway.listen()).is_err(),
            "a new connection was accepted"
        );
        gate.open();
        let response = client.join().expect("a client").expect("an answer");
        assert_eq!(response.status, 201, "{response:?}");
        let (status, said) = gateway.ended();
        assert_eq!(status.code(), Some(0));
        assert!(said.contains("draining: no new connections"), "{said}");
        assert!(said.contains("all requests were completed"), "{said}");
    }
}

#[test]
fn requests_past_the_drain_timeout_are_cut_off_and_reported() {
    let (gate, upstream) = held();
    let limit = [("SEMEL_LIMITS_SHUTDOWN_TIMEOUT", "100ms")];
    let gateway = before(&upstream).variables(&limit).start_unready();
    let client = slow(&gateway);
    gate.wait_for(1);
    let (status, said) = gateway.terminate();
    assert_eq!(status.code(), Some(1));
    assert!(said.contains("WARN") && said.contains("this work was cut off"), "{said}");
    // Its client learns of it, one way or another.
    drop(client.join().expect("a client"));
}

#[test]
fn a_second_signal_ends_at_once() {
    let (gate, upstream) = held();
    let gateway = before(&upstream).start_unready();
    let client = slow(&gateway);
    gate.wait_for(1);
    gateway.signal(Signal::TERM);
    draining(&gateway);
    gateway.signal(Signal::INT);
    let (status, said) = gateway.ended();
    assert_eq!(status.code(), Some(1));
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
    let mut process = Process::start(&mut command);
    let _silent = database.accept().expect("a gateway that connects");
    process.signal(Signal::TERM);
    assert_eq!(process.ended().code(), Some(0));
    assert!(process.err.all().contains("stopped before it had started"));
}
