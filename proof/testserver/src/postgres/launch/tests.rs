use std::net::{Ipv4Addr, TcpListener};

use super::*;
use crate::process::PORT_TRIES;
use crate::{port, supervisor};

fn prepared() -> Postgres {
    Postgres::options().prepare().expect("all but the server")
}

#[test]
fn a_port_that_somebody_else_took_is_left_to_them() {
    let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
    let taken = other.local_addr().expect("an address").port();
    let mut first = Some(taken);
    let mut postgres = prepared();
    postgres.first_start(|| first.take().map_or_else(port::spare, Ok)).expect("a server");
    assert_ne!(postgres.port(), taken);
}

#[test]
fn ports_are_not_tried_without_end() {
    let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
    let taken = other.local_addr().expect("an address").port();
    let mut tries = 0;
    let mut postgres = prepared();
    let result = postgres.first_start(|| {
        tries += 1;
        Ok(taken)
    });
    let error = result.expect_err("a port that is taken");
    assert!(error.to_string().contains("Address already in use"), "{error}");
    assert_eq!(tries, PORT_TRIES);
}

/// The process id in the lock of a server that was killed now belongs to another process, which has the
/// server's user: `PostgreSQL` takes them for the server.
#[test]
fn a_lock_with_the_id_of_a_stranger_does_not_keep_the_server_from_starting() {
    let mut postgres = prepared();
    postgres.first_start(port::spare).expect("a server");
    postgres.kill().expect("killed");
    let mut stranger = tied(Path::new("sleep"), postgres.account, "KILL");
    stranger.arg("1000");
    let mut stranger = supervisor::spawn(stranger).expect("a process");
    let lock = fs::read_to_string(postgres.lock_path()).expect("a lock that was left");
    let (_, rest) = lock.split_once('\n').expect("lines");
    fs::write(postgres.lock_path(), format!("{}\n{rest}", stranger.id())).expect("written");
    let result = postgres.start_again();
    stranger.kill().expect("ended");
    stranger.wait().expect("reaped");
    result.expect("a server");
}
