//! What the bank refuses is an answer like any other.

use super::support::{Answer, Call};
use super::{Bank, ORDER};

fn assert_kept(bank: &Bank, key: &str, body: &str, status: u16, code: &str) -> Answer {
    let first = bank.service.transfer(key, body);
    assert_eq!((first.status, &*first.code()), (status, code), "{first:?}");
    let retry = bank.service.transfer(key, body);
    assert!(!first.is_replay() && retry.is_replay(), "{first:?} {retry:?}");
    assert_eq!(first.clone().essence(), retry.essence());
    first
}

#[test]
fn a_refusal_for_lack_of_money_outlives_the_lack() {
    let bank = Bank::start();
    let order = ORDER.replace("6000", "10001");
    let first = assert_kept(&bank, "rent", &order, 402, "insufficient_funds");
    bank.service.open("carol", 500);
    let gift = r#"{"from": "carol", "to": "alice", "amount": 500, "currency": "EUR"}"#;
    assert_eq!(bank.service.transfer("gift", gift).status, 201);
    let retry = bank.service.transfer("rent", &order);
    assert_eq!(retry.essence(), first.essence());
    assert_eq!(bank.balances(), [10_500, 0]);
    // A new key is a new order.
    assert_eq!(bank.service.transfer("rent-2", &order).status, 201);
    assert_eq!(bank.balances(), [499, 10_001]);
}

#[test]
fn orders_that_cannot_be_carried_out_are_refused() {
    let bank = Bank::start();
    let orders = [
        (r#""bob""#, r#""nobody""#, 404, "unknown_account"),
        (r#""alice""#, r#""nobody""#, 404, "unknown_account"),
        (r#""bob""#, r#""alice""#, 422, "invalid_order"),
        ("6000", "0", 422, "invalid_order"),
        ("6000", "-6000", 422, "invalid_order"),
        ("6000", "60.00", 422, "invalid_order"),
        ("6000", "9223372036854775808", 422, "invalid_order"),
        (r#""EUR""#, r#""USD""#, 422, "wrong_currency"),
        ("reference", "remark", 422, "invalid_order"),
        ("}", "", 422, "invalid_order"),
        ("May", r"Ma\u0000y", 422, "invalid_order"),
        ("alice", r"alice\u0000", 422, "invalid_order"),
        ("bob", r"\u0000", 422, "invalid_order"),
        ("EUR", r"EUR\u0000", 422, "wrong_currency"),
    ];
    for (number, (part, instead, status, code)) in orders.into_iter().enumerate() {
        let body = ORDER.replace(part, instead);
        assert_kept(&bank, &format!("order-{number}"), &body, status, code);
    }
    assert_eq!(bank.balances(), [10_000, 0]);
    assert_eq!(bank.ask("SELECT count(*) FROM bank.transfers"), "0");
    assert_eq!(bank.ask("SELECT count(*) FROM semel.outbox"), "0");
}

#[test]
fn a_balance_cannot_be_more_than_can_be_counted() {
    let bank = Bank::start();
    bank.service.open("rich", i64::MAX);
    let order = r#"{"from": "alice", "to": "rich", "amount": 1, "currency": "EUR"}"#;
    assert_kept(&bank, "more", order, 422, "balance_too_large");
    let all =
        format!(r#"{{"from": "rich", "to": "bob", "amount": {}, "currency": "EUR"}}"#, i64::MAX);
    assert_eq!(bank.service.transfer("all", &all).status, 201);
    assert_eq!(bank.balances(), [10_000, i64::MAX]);
}

#[test]
fn an_account_is_opened_once() {
    let bank = Bank::start();
    let open = |key: &str, body: &str| {
        bank.service.send(&Call::post("/accounts", body).by("teller").key(key))
    };
    let carol = r#"{"id": "carol", "currency": "USD", "deposit": 1}"#;
    let first = open("new-1", carol);
    assert_eq!((first.status, first.header("location")), (201, Some("/accounts/carol")));
    assert_eq!(open("new-1", carol).essence(), first.essence());
    assert_eq!(open("new-2", carol).code(), "account_exists");
    for bad in [r#""ca rol""#, r#""""#] {
        let refused = open(&format!("bad-{}", bad.len()), &carol.replace(r#""carol""#, bad));
        assert_eq!(refused.status, 422, "{refused:?}");
    }
    assert_eq!(open("new-usd", &carol.replace("USD", "usd")).status, 422);
    assert_eq!(open("new-debt", &carol.replace(": 1}", ": -1}")).status, 422);
    assert_eq!(bank.service.balance("carol"), 1);
}

#[test]
fn unknown_paths_are_not_found() {
    let bank = Bank::start();
    let nul = ["/accounts/%00", "/transfers/tr_%00"];
    for path in ["/accounts/nobody", "/transfers/tr_none", "/nowhere"].into_iter().chain(nul) {
        assert_eq!(bank.service.send(&Call::get(path)).status, 404, "{path}");
    }
}
