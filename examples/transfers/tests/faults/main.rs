//! Many clients move money, and retry each order until they have its result, while the service or the server is
//! killed, frozen and cut off.
//!
//! At the end, and now and then before, the books must be right (`books`), and all answers to the clients must be
//! true (`answers`). Each test prints what happened.

#[path = "../support/mod.rs"]
mod support;

mod answers;
mod books;
mod client;
mod fleet;
mod harm;
mod load;

use semel_testserver::Postgres;

use fleet::Fleet;
use load::under_load;

/// A server for one test alone. A service that is frozen keeps its locks for a moment only.
fn server() -> Postgres {
    let options = Postgres::options().setting("idle_in_transaction_session_timeout", "500ms");
    options.start().expect("a server")
}

#[test]
fn the_service_is_killed_again_and_again() {
    let server = server();
    let fleet = Fleet::start(&server, &[&[], &[]]);
    under_load(&server, &fleet, 24, |_, round| {
        harm::freeze_at_work(&server, &fleet, round % 2);
        fleet.kill(round % 2);
    });
}

#[test]
fn the_server_is_killed_again_and_again() {
    let server = server();
    // One reports each loss to its clients, the other tries again by itself.
    let fleet = Fleet::start(&server, &[&["--tries", "1"], &[]]);
    under_load(&server, &fleet, 6, |_, round| {
        if round % 2 == 0 {
            server.kill().expect("it dies");
        } else {
            server.stop_immediately().expect("it stops");
        }
        server.start_again().expect("it starts");
    });
}

/// A frozen service does not notice that the server has given its transactions up, and that others
/// have done its work. It finds out when it goes on.
#[test]
fn a_service_is_frozen_with_transactions_open() {
    let server = server();
    let fleet = Fleet::start(&server, &[&[], &[]]);
    under_load(&server, &fleet, 5, |load, round| {
        let sessions = harm::freeze_at_work(&server, &fleet, round % 2);
        // Its locks are in the way of the others, until its transactions end.
        harm::wait_until_no_transaction_is_open(&server, &sessions);
        load.wait_for_progress();
        fleet.thaw(round % 2);
    });
}

#[test]
fn connections_are_ended_at_random() {
    let server = server();
    let fleet = Fleet::start(&server, &[&["--tries", "1"], &[]]);
    under_load(&server, &fleet, 30, |_, round| harm::end_transactions(&server, round % 2 == 0));
}
