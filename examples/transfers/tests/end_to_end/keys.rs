//! Retries, and what else a key is used for.

use super::support::Call;
use super::{Bank, ORDER};

#[test]
fn a_retry_gets_the_first_answer_byte_for_byte() {
    let bank = Bank::start();
    let first = bank.service.transfer("rent", ORDER);
    let retry = bank.service.transfer("rent", ORDER);
    assert_eq!(first.status, 201, "{first:?}");
    assert!(!first.is_replay() && retry.is_replay(), "{first:?} {retry:?}");
    assert_eq!(first.clone().essence(), retry.essence());
    assert_eq!(bank.balances(), [4_000, 6_000]);
    let found = bank.service.send(&Call::get(format!("/transfers/{}", first.id())));
    assert_eq!(found.json(), first.json());
}

#[test]
fn the_same_key_for_another_order_is_refused() {
    let bank = Bank::start();
    bank.service.transfer("rent", ORDER);
    let changed = bank.service.transfer("rent", &ORDER.replace("6000", "1"));
    assert_eq!((changed.status, &*changed.code()), (409, "idempotency_payload_mismatch"));
    assert_eq!(bank.balances(), [4_000, 6_000]);
    // Only how it is written differs.
    let spaced = bank.service.transfer("rent", &ORDER.replace(", ", ",\n  "));
    assert!(spaced.is_replay(), "{spaced:?}");
}

#[test]
fn customers_do_not_share_keys() {
    let bank = Bank::start();
    let order = ORDER.replace("6000", "1000");
    let call = |who| Call::post("/transfers", &*order).by(who).key("rent");
    let (alice, bob) = (bank.service.send(&call("alice")), bank.service.send(&call("bob")));
    assert_eq!((alice.status, bob.status), (201, 201));
    assert!(!alice.is_replay() && !bob.is_replay() && alice.id() != bob.id());
    assert_eq!(bank.balances(), [8_000, 2_000]);
}

#[test]
fn a_transfer_needs_a_key_and_a_customer() {
    let bank = Bank::start();
    let keyless = bank.service.send(&Call::post("/transfers", ORDER).by("alice"));
    assert_eq!((keyless.status, &*keyless.code()), (400, "idempotency_key_missing"));
    let nobody = bank.service.send(&Call::post("/transfers", ORDER).key("rent"));
    assert_eq!((nobody.status, &*nobody.code()), (401, "idempotency_scope_missing"));
    assert_eq!(bank.balances(), [10_000, 0]);
}

/// The record is swept after its retention; the transfer still remembers its key.
#[test]
fn a_key_makes_one_transfer_also_after_its_record_is_gone() {
    let bank = Bank::start();
    bank.service.transfer("rent", ORDER);
    bank.ask("DELETE FROM semel.record");
    let late = bank.service.transfer("rent", &ORDER.replace("6000", "1"));
    assert_eq!((late.status, &*late.code()), (409, "key_used"));
    assert_eq!(bank.balances(), [4_000, 6_000]);
}
