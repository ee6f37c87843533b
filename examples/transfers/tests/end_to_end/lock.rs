//! A conflicting transaction of another client.

use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls};

use super::Bank;
use super::support::eventually;

/// A lock on the account `alice`, until it is dropped.
pub(crate) struct Lock {
    // Dropped first: its connection ends on the runtime.
    _client: Client,
    _runtime: Runtime,
}

// === impl Lock ===

impl Lock {
    pub(crate) fn on_alice(bank: &Bank) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let client = runtime.block_on(async {
            let session = tokio_postgres::connect(&bank.database, NoTls).await;
            let (client, connection) = session.expect("a session");
            tokio::spawn(connection);
            let lock = "BEGIN; SELECT 1 FROM bank.accounts WHERE id = 'alice' FOR UPDATE";
            client.batch_execute(lock).await.expect("a lock");
            client
        });
        Self { _client: client, _runtime: runtime }
    }

    /// Blocks until a transaction waits for such a lock.
    pub(crate) fn wait_until_met(bank: &Bank, times: usize) {
        let waiting = "SELECT count(*) FROM pg_stat_activity
                       WHERE wait_event_type = 'Lock' AND datname = current_database()";
        let times = times.to_string();
        eventually("a transaction waits for the account", || {
            (bank.ask(waiting) == times).then_some(())
        });
    }
}
