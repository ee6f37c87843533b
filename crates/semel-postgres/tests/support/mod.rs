//! A store on a real server, in a schema of its own, by a clock that the test moves.

#![allow(dead_code, reason = "each test binary uses its part of this")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use semel_core::Timestamp;
use semel_postgres::{Options, PostgresStore, migrate};
use semel_testserver::Postgres;
use tokio_postgres::{Client, NoTls};

/// The moment at which a manual clock begins.
pub(crate) const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// The address of a schema that no other test has, on the server that all tests share.
pub(crate) fn fresh_url() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}?schema=test_{}_{number}", Postgres::shared().url(), std::process::id())
}

/// The schema that [`fresh_url`] has chosen.
pub(crate) fn schema_of(url: &str) -> &str {
    url.rsplit_once("schema=").expect("an address of ours").1
}

/// Options that leave sweeping to the test.
pub(crate) fn options(url: &str) -> Options {
    Options::from_url(url).expect("an address").sweep_every(None)
}

/// A session of the test's own.
pub(crate) async fn connect(url: &str) -> Client {
    let (base, _) = url.split_once('?').unwrap_or((url, ""));
    let (client, connection) = tokio_postgres::connect(base, NoTls).await.expect("a session");
    tokio::spawn(connection);
    client
}

/// A store whose server has a clock that stands still until it is moved.
pub(crate) struct Clocked {
    pub(crate) store: PostgresStore,
    pub(crate) url: String,
    session: Client,
}

impl Clocked {
    pub(crate) async fn make() -> Self {
        let url = fresh_url();
        migrate(&options(&url)).await.expect("a schema");
        let session = connect(&url).await;
        let schema = schema_of(&url);
        let clock = format!(
            "CREATE TABLE {schema}.test_clock AS SELECT {}::bigint AS now_ms;
             CREATE OR REPLACE FUNCTION {schema}.now_ms() RETURNS bigint LANGUAGE sql VOLATILE
             AS 'SELECT now_ms FROM {schema}.test_clock'",
            START.as_millis()
        );
        session.batch_execute(&clock).await.expect("a clock");
        Self::open(url, session).await
    }

    async fn open(url: String, session: Client) -> Self {
        let store = options(&url).open().await.expect("the store opens");
        Self { store, url, session }
    }

    pub(crate) async fn advance(&self, by: Duration) {
        let schema = schema_of(&self.url);
        let millis = i64::try_from(by.as_millis()).expect("a short while");
        let sql = format!("UPDATE {schema}.test_clock SET now_ms = now_ms + {millis}");
        self.session.batch_execute(&sql).await.expect("the clock moves");
    }

    pub(crate) async fn reopen(self) -> Self {
        let Self { store, url, session } = self;
        drop(store);
        Self::open(url, session).await
    }
}
