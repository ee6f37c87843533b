//! Many at once.

use std::thread;

use super::support::{Answer, Call, Service, eventually};
use super::{Bank, Lock, ORDER};

/// Retries for as long as the first attempt runs.
fn insist(service: &Service, key: &str, body: &str) -> Answer {
    // Earlier than `Retry-After`: a test need not be polite.
    eventually(key, || {
        let answer = service.transfer(key, body);
        let in_flight = answer.status == 409 && answer.code() == "request_in_progress";
        assert!(!in_flight || answer.header("retry-after").is_some(), "{answer:?}");
        (!in_flight).then_some(answer)
    })
}

fn all<T: Send>(count: usize, one: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let one = &one;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|number| scope.spawn(move || one(number))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

#[test]
fn fifty_at_once_make_one_transfer() {
    let bank = Bank::start();
    let answers = all(50, |_| insist(&bank.service, "rent", ORDER));
    assert!(answers.iter().all(|answer| answer.status == 201), "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| !answer.is_replay()).count(), 1);
    let first = answers[0].clone().essence();
    assert!(answers.into_iter().all(|answer| answer.essence() == first));
    assert_eq!(bank.balances(), [4_000, 6_000]);
    assert_eq!(bank.ask("SELECT count(*) FROM bank.transfers"), "1");
}

/// A lock on an account delays the first attempt. Meanwhile every other request, to any instance, gets its answer at
/// once, another order with the same key included: its mismatch is not visible yet.
#[test]
fn a_duplicate_is_in_flight_while_the_first_runs() {
    let bank = Bank::start();
    let other = Service::start(&bank.database, &[]);
    let lock = Lock::on_alice(&bank);
    let first = thread::scope(|scope| {
        let first = scope.spawn(|| bank.service.transfer("rent", ORDER));
        Lock::wait_until_met(&bank, 1);
        for body in [ORDER, &ORDER.replace("6000", "1")] {
            for service in [&bank.service, &other] {
                let duplicate = service.transfer("rent", body);
                assert_eq!((duplicate.status, &*duplicate.code()), (409, "request_in_progress"));
            }
        }
        drop(lock);
        first.join().expect("an answer")
    });
    assert_eq!((first.status, first.is_replay()), (201, false), "{first:?}");
    assert_eq!(other.transfer("rent", ORDER).essence(), first.essence());
    let changed = other.transfer("rent", &ORDER.replace("6000", "1"));
    assert_eq!(changed.code(), "idempotency_payload_mismatch");
    assert_eq!(bank.balances(), [4_000, 6_000]);
}

/// Each could be paid, but not both: the second sees the balance that the first has left.
#[test]
fn of_two_that_the_account_cannot_both_pay_one_is_declined() {
    let bank = Bank::start();
    let lock = Lock::on_alice(&bank);
    let statuses = thread::scope(|scope| {
        let keys = ["rent", "car"];
        let both = keys.map(|key| scope.spawn(|| bank.service.transfer(key, ORDER).status));
        Lock::wait_until_met(&bank, 2);
        drop(lock);
        both.map(|one| one.join().expect("an answer"))
    });
    assert!([[201, 402], [402, 201]].contains(&statuses), "{statuses:?}");
    assert_eq!(bank.balances(), [4_000, 6_000]);
}

/// Transfers in both directions between the same accounts, through two instances.
#[test]
fn opposite_transfers_do_not_wait_for_each_other() {
    let bank = Bank::start();
    let other = Service::start(&bank.database, &[]);
    let order = |from, to| {
        format!(r#"{{"from": "{from}", "to": "{to}", "amount": 10, "currency": "EUR"}}"#)
    };
    assert_eq!(bank.service.transfer("first", &ORDER.replace("6000", "5000")).status, 201);
    let answers = all(40, |number| {
        let service = if number % 4 < 2 { &bank.service } else { &other };
        let body = if number % 2 == 0 { order("alice", "bob") } else { order("bob", "alice") };
        insist(service, &format!("both-{number}"), &body)
    });
    assert!(answers.iter().all(|answer| answer.status == 201), "{answers:?}");
    assert_eq!(bank.balances(), [5_000, 5_000]);
    assert_eq!(bank.ask("SELECT count(*) FROM bank.transfers"), "41");
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(bank.ask(deadlocks), "0");
}

#[test]
fn two_instances_share_the_keys() {
    let bank = Bank::start();
    let other = Service::start(&bank.database, &[]);
    let first = bank.service.transfer("rent", ORDER);
    let retry = other.transfer("rent", ORDER);
    assert!(retry.is_replay(), "{retry:?}");
    assert_eq!(first.essence(), retry.essence());
    let answers = all(50, |number| {
        let service = if number % 2 == 0 { &bank.service } else { &other };
        insist(service, "more", &ORDER.replace("6000", "1"))
    });
    assert!(answers.iter().all(|answer| answer.id() == answers[0].id()), "{answers:?}");
    assert_eq!(bank.balances(), [3_999, 6_001]);
    assert!(other.send(&Call::get("/health")).body.contains("ok"));
}
