//! Starting and stopping.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::thread;

use rustix::process::Signal;
use semel_testserver::Postgres;

use super::support::{Call, Service};
use super::{Bank, Lock, ORDER};

#[test]
fn a_transfer_outlives_the_program() {
    let bank = Bank::start();
    let first = bank.service.transfer("rent", ORDER);
    bank.service.kill();
    let again = Service::start(&bank.database, &[]);
    assert_eq!(again.transfer("rent", ORDER).essence(), first.essence());
    assert_eq!(again.balance("bob"), 6_000);
}

#[test]
fn running_requests_are_answered_before_shutdown() {
    let bank = Bank::start();
    let lock = Lock::on_alice(&bank);
    thread::scope(|scope| {
        let running = scope.spawn(|| bank.service.transfer("rent", ORDER));
        Lock::wait_until_met(&bank, 1);
        bank.service.signal(Signal::TERM);
        drop(lock);
        assert_eq!(running.join().expect("an answer").status, 201);
    });
    let (status, printed) = bank.service.terminate();
    assert!(status.success() && printed.ends_with("stopped\n"), "{status}: {printed}");
}

#[test]
fn the_profile_decides_how_a_mismatch_is_answered() {
    let database = Postgres::shared().new_database().expect("a database");
    let service = Service::start(&database, &["--profile", "ietf"]);
    service.open("alice", 10_000);
    service.open("bob", 0);
    service.transfer("rent", ORDER);
    let changed = service.transfer("rent", &ORDER.replace("6000", "1"));
    assert_eq!((changed.status, &*changed.code()), (422, "idempotency_payload_mismatch"));
}

#[test]
fn the_program_says_how_it_is() {
    let bank = Bank::start();
    let health = bank.service.send(&Call::get("/health"));
    assert_eq!((health.status, &*health.body), (200, r#"{"status":"ok"}"#));
}

/// Without a database it starts one, which ends with it and keeps its data.
#[test]
fn the_program_can_do_without_a_database() {
    let directory = tempfile::tempdir().expect("a directory");
    // The server may have to run as another user.
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).expect("a mode");
    let service = Service::start_alone(directory.path());
    service.open("alice", 10_000);
    service.open("bob", 0);
    let first = service.transfer("rent", ORDER);
    assert!(service.terminate().0.success());
    assert!(directory.path().join("transfers-data").is_dir());
    let again = Service::start_alone(directory.path());
    assert_eq!(again.transfer("rent", ORDER).essence(), first.essence());
    assert!(again.terminate().0.success());
}

#[test]
fn a_database_that_is_not_there_is_named() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transfers"));
    let output = command.args(["--database", "postgres://bank:secret@127.0.0.1:1/bank"]).output();
    let output = output.expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(said.contains("127.0.0.1:1") && !said.contains("secret"), "{said}");
}
