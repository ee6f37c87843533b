//! The example from the outside: the real program on a real server.

#[path = "../support/mod.rs"]
mod support;

mod contention;
mod keys;
mod lock;
mod program;
mod readme;
mod refusals;
mod rows;

use semel_testserver::Postgres;

use lock::Lock;
use support::Service;

/// A bank of its own for a test, with 100.00 EUR on `alice` and nothing on `bob`.
struct Bank {
    service: Service,
    database: String,
}

/// 60.00 EUR from `alice` to `bob`.
const ORDER: &str =
    r#"{"from": "alice", "to": "bob", "amount": 6000, "currency": "EUR", "reference": "May"}"#;

// === impl Bank ===

impl Bank {
    fn start() -> Self {
        let database = Postgres::shared().new_database().expect("a database");
        let service = Service::start(&database, &[]);
        service.open("alice", 10_000);
        service.open("bob", 0);
        Self { service, database }
    }

    /// What a query finds: a line per row, columns apart by `|`.
    fn ask(&self, sql: &str) -> String {
        Postgres::shared().psql_at(&self.database, sql).expect("rows").trim().to_owned()
    }

    fn balances(&self) -> [i64; 2] {
        ["alice", "bob"].map(|id| self.service.balance(id))
    }
}
