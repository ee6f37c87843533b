//! The bank's books, looked at in one statement: all of it at the same moment, also under load.

use std::collections::BTreeMap;

use semel_testserver::Postgres;

/// A transfer, as the books have it.
#[derive(Debug)]
pub(crate) struct Booked {
    pub(crate) id: String,
    pub(crate) order: String,
    pub(crate) created_ms: u128,
}

/// What must be zero, and what must never change. A record is settled as completed by a transfer or
/// by the opening of an account.
const CHECK: &str = "
WITH booked AS (SELECT transfer, count(*) AS entries, sum(amount) AS total
                FROM bank.entries GROUP BY transfer),
     moved AS (SELECT account, sum(amount) AS total FROM bank.entries GROUP BY account),
     published AS (SELECT record, count(*) AS events,
                     min(convert_from(payload, 'UTF8')::jsonb ->> 'id') AS transfer
              FROM semel.outbox GROUP BY record)
SELECT (SELECT coalesce(sum(balance), 0) FROM bank.accounts) AS total,
       (SELECT count(*) FROM bank.accounts a LEFT JOIN moved m ON m.account = a.id
        WHERE a.balance <> a.opening + coalesce(m.total, 0)) AS off_balance,
       (SELECT count(*) FROM bank.transfers t LEFT JOIN booked b ON b.transfer = t.id
        WHERE b.entries IS DISTINCT FROM 2 OR b.total <> 0) AS badly_booked,
       (SELECT count(*) - count(DISTINCT reference) FROM bank.transfers) AS made_twice,
       (SELECT count(*) FROM bank.transfers t LEFT JOIN published o ON o.record = t.idempotency_key
        WHERE o.events IS DISTINCT FROM 1 OR o.transfer <> t.id) AS badly_published,
       (SELECT count(*) FROM published o LEFT JOIN bank.transfers t ON t.idempotency_key = o.record
        WHERE t.id IS NULL) AS made_up,
       (SELECT count(*) FROM bank.transfers t LEFT JOIN semel.record r ON r.id = t.idempotency_key
        WHERE r.state IS DISTINCT FROM 3) AS not_settled,
       (SELECT count(*) FROM semel.record WHERE state = 3)
           - (SELECT count(*) FROM bank.transfers) - (SELECT count(*) FROM bank.accounts)
           AS not_made";

const COLUMNS: [&str; 7] = [
    "off_balance",
    "badly_booked",
    "made_twice",
    "badly_published",
    "made_up",
    "not_settled",
    "not_made",
];

/// Holds the books to their rules. All money together must be `total`.
pub(crate) fn check(server: &Postgres, total: i64) {
    let row = server.psql(CHECK).expect("the books");
    let numbers: Vec<i64> =
        row.trim().split('|').map(|number| number.parse().expect("a number")).collect();
    assert_eq!(numbers[0], total, "money appeared or vanished");
    for (what, number) in COLUMNS.iter().zip(&numbers[1..]) {
        assert_eq!(*number, 0, "{what}: {row}");
    }
}

/// All transfers, by their references.
pub(crate) fn transfers(server: &Postgres) -> BTreeMap<String, Vec<Booked>> {
    let sql = "SELECT reference, id, debited || '>' || credited || ':' || amount,
                      (extract(epoch FROM created) * 1000)::bigint FROM bank.transfers";
    let rows = server.psql(sql).expect("the transfers");
    let mut found = BTreeMap::<String, Vec<Booked>>::new();
    for row in rows.lines().filter(|row| !row.is_empty()) {
        let columns: Vec<&str> = row.split('|').collect();
        let [reference, id, order, created_ms] = columns[..] else { panic!("{row}") };
        let created_ms = created_ms.parse().expect("a moment");
        let booked = Booked { id: id.to_owned(), order: order.to_owned(), created_ms };
        found.entry(reference.to_owned()).or_default().push(booked);
    }
    found
}
