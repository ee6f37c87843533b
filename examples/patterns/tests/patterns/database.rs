//! Sessions in a database of the test's own.

use semel_testserver::Postgres;
use tokio_postgres::{Client, NoTls};

/// A database with the tables of all patterns.
pub(crate) struct Database {
    url: String,
}

// === impl Database ===

impl Database {
    pub(crate) async fn make() -> Self {
        let make = tokio::task::spawn_blocking(|| Postgres::shared().new_database());
        let database = Self { url: make.await.expect("no panic").expect("a database") };
        patterns::make_tables(&database.session().await).await.expect("tables");
        database
    }

    pub(crate) async fn session(&self) -> Client {
        let (client, connection) =
            tokio_postgres::connect(&self.url, NoTls).await.expect("a session");
        tokio::spawn(connection);
        client
    }
}

/// The one number that a query gives.
pub(crate) async fn number(client: &Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.expect("a row").get(0)
}
