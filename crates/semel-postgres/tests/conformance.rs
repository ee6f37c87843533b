//! The store keeps the contract on a real server, decided in the database.

mod support;

use std::time::Duration;

use semel_postgres::PostgresStore;
use semel_store::conformance::{Fixture, FixtureClock};
use semel_store::store_conformance;

use support::Clocked;

impl Fixture for Clocked {
    type Store = PostgresStore;
    const DURABLE: bool = true;
    const CLOCK: FixtureClock = FixtureClock::Manual;
    const UNIT: Duration = Duration::from_secs(1);
    // Each verb waits for the server's disk.
    const MANY: usize = 2_000;

    async fn make() -> Self {
        Self::make().await
    }

    fn store(&self) -> &PostgresStore {
        &self.store
    }

    async fn advance(&self, duration: Duration) {
        self.advance(duration).await;
    }

    async fn reopen(self) -> Self {
        self.reopen().await
    }
}

store_conformance!(Clocked);
