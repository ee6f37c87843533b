//! The example as the README has it, from the outside.

mod support;

use std::thread;

use support::{Service, play_readme};

const ORDER: &str = r#"{"amount": 2000}"#;

#[test]
fn a_retry_gets_the_first_answer_byte_for_byte() {
    let service = Service::start();
    let (first, retry) = (service.charge("order-1", ORDER), service.charge("order-1", ORDER));
    assert_eq!((first.status, retry.status), (201, 201), "{first:?} {retry:?}");
    assert!(!first.is_replay() && retry.is_replay(), "{first:?} {retry:?}");
    assert_eq!(first.body, retry.body);
    assert_eq!(first.header("location"), retry.header("location"));
    assert_eq!(service.ledger().matches("ch_").count(), 1);
}

#[test]
fn the_same_key_for_another_amount_is_refused() {
    let service = Service::start();
    service.charge("order-1", ORDER);
    let changed = service.charge("order-1", r#"{"amount": 9900}"#);
    assert_eq!(changed.status, 409, "{changed:?}");
    assert!(changed.body.contains("idempotency_payload_mismatch"), "{changed:?}");
    assert!(!service.ledger().contains("9900"));
}

#[test]
fn fifty_at_once_make_one_charge() {
    let service = Service::start();
    let answers: Vec<_> = thread::scope(|scope| {
        let clients: Vec<_> =
            (0..50).map(|_| scope.spawn(|| service.charge("order-1", ORDER))).collect();
        clients.into_iter().map(|client| client.join().expect("an answer")).collect()
    });
    assert!(answers.iter().all(|answer| answer.status == 201), "{answers:?}");
    assert!(answers.iter().all(|answer| answer.body == answers[0].body), "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| !answer.is_replay()).count(), 1);
    assert_eq!(service.ledger().matches("ch_").count(), 1);
}

/// The ledger is in memory, so after the restart only the record knows of the charge. That the
/// ledger stays empty shows that the retry did not charge again.
#[test]
fn after_kill_9_a_retry_gets_the_first_answer() {
    let mut service = Service::start();
    let first = service.charge("order-1", ORDER);
    assert_eq!(service.ledger().matches("ch_").count(), 1);
    service.kill_and_restart();
    let retry = service.charge("order-1", ORDER);
    assert_eq!((retry.status, &retry.body), (201, &first.body));
    assert!(retry.is_replay(), "{retry:?}");
    assert_eq!(service.ledger(), "[]");
}

#[test]
fn a_charge_needs_a_key_and_a_client() {
    let service = Service::start();
    let anonymous = service.send("POST", "idempotency-key: order-1\r\n", ORDER);
    assert_eq!(anonymous.status, 401, "{anonymous:?}");
    let keyless = service.send("POST", "authorization: Bearer alice\r\n", ORDER);
    assert_eq!(keyless.status, 400, "{keyless:?}");
    assert_eq!(service.ledger(), "[]");
}

#[test]
fn the_readme_tells_the_truth() {
    let service = Service::start();
    let said = play_readme(service.address);
    let [first, retry, changed, ledger] = &said[..] else {
        panic!("not four lines: {said:?}");
    };
    assert!(first.starts_with("HTTP/1.1 201"), "{first}");
    assert!(retry.starts_with("HTTP/1.1 201"), "{retry}");
    assert!(retry.to_lowercase().contains("x-idempotency-replayed: true"), "{retry}");
    assert!(changed.starts_with("HTTP/1.1 409"), "{changed}");
    assert_eq!(ledger.matches("ch_").count(), 1, "{ledger}");
}
