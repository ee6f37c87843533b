//! The server becomes a standby while a gateway serves.

use std::fs;

use semel_testserver::Postgres;

use crate::shared::outages::{
    assert_refused, assert_served, served, wait_until_not_ready, wait_until_ready,
};

/// A failover leaves the old server behind as a standby.
#[test]
fn while_the_server_is_a_standby_requests_are_refused() {
    let (server, upstream, gateway) = served::<Postgres>();
    let signal = server.directory().join("data/standby.signal");
    server.stop_fast().expect("a server to stop");
    fs::write(&signal, "").expect("a signal");
    server.start_again().expect("a standby");
    wait_until_not_ready(&gateway, "read-only");
    assert_refused(&upstream, &gateway);
    server.stop_fast().expect("a standby to stop");
    fs::remove_file(&signal).expect("a signal");
    server.start_again().expect("a server");
    wait_until_ready(&gateway);
    assert_served(&upstream, &gateway);
}
