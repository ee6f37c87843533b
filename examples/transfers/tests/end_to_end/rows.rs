//! What a transfer leaves in the database.

use super::{Bank, ORDER};

#[test]
fn a_transfer_is_two_entries_and_one_event() {
    let bank = Bank::start();
    let made = bank.service.transfer("rent", ORDER);
    bank.service.transfer("rent", ORDER);
    let entries = bank.ask("SELECT account, amount, transfer FROM bank.entries ORDER BY account");
    assert_eq!(entries, format!("alice|-6000|{0}\nbob|6000|{0}", made.id()));
    let events = bank.ask("SELECT topic, key, convert_from(payload, 'UTF8') FROM semel.outbox");
    assert_eq!(events, format!("transfers|alice|{}", made.body));
    let keys = "SELECT count(*) FROM bank.transfers t
                JOIN semel.outbox o ON o.record = t.idempotency_key
                JOIN semel.record r ON r.id = t.idempotency_key";
    assert_eq!(bank.ask(keys), "1");
}

/// The operator's way from a transfer to its record and back.
#[test]
fn the_record_names_what_was_made() {
    let bank = Bank::start();
    let made = bank.service.transfer("rent", ORDER);
    let results =
        bank.ask("SELECT r.result FROM semel.record r JOIN semel.outbox o ON o.record = r.id");
    assert_eq!(results, format!("/transfers/{}", made.id()));
}

#[test]
fn a_refusal_leaves_nothing_but_its_record() {
    let bank = Bank::start();
    bank.service.transfer("rent", &ORDER.replace("6000", "10001"));
    let left = "SELECT (SELECT count(*) FROM bank.transfers), (SELECT count(*) FROM bank.entries),
                       (SELECT count(*) FROM semel.outbox), (SELECT count(*) FROM semel.record)";
    // Two records are of the accounts.
    assert_eq!(bank.ask(left), "0|0|0|3");
}
