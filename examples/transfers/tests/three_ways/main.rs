//! The three ways to use the same transaction, as the guide shows them.
//!
//! Each does the same piece of work: it books an entry. Each is asked three times.

mod pool;
mod with_sqlx;
mod with_tokio_postgres;

use semel_core::{Fingerprint, Key, Policy, RecordId, Scope};
use semel_postgres::{Options, migrate};
use semel_testserver::Postgres;

const BOOK: &str = "INSERT INTO entry (account, amount) VALUES ($1, $2)";

/// A database with Semel's tables and one of our own; its address.
async fn database() -> String {
    let make = tokio::task::spawn_blocking(|| Postgres::shared().new_database());
    let url = make.await.expect("no panic").expect("a database");
    let options = Options::from_url(&url).expect("an address");
    migrate(&options).await.expect("Semel's tables");
    let client = options.connect().await.expect("a session");
    client
        .batch_execute("CREATE TABLE public.entry (account text, amount bigint)")
        .await
        .expect("ours");
    url
}

/// What is claimed, and what must be equal when it is claimed again.
fn order() -> (RecordId, Fingerprint) {
    let scope = Scope::new([("who", "customer-7"), ("what", "POST /entries")]);
    let key = Key::parse("order-12345").expect("a key");
    let id = RecordId::new("bank", &scope, &key);
    (id, Fingerprint::new([("body", r#"{"account":"alice","amount":100}"#)]))
}

fn policy() -> Policy {
    Policy::default()
}

/// One entry, one event and one record, however often it was asked.
async fn assert_done_once(url: &str) {
    let client = Options::from_url(url).expect("an address").connect().await.expect("a session");
    for table in ["entry", "semel.outbox", "semel.record"] {
        let sql = format!("SELECT count(*) FROM {table}");
        let rows: i64 = client.query_one(&sql, &[]).await.expect("a number").get(0);
        assert_eq!(rows, 1, "{table}");
    }
}
