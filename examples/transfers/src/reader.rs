//! Looking things up. That changes nothing, so it needs no key and no claim.

use std::sync::Arc;
use std::time::Duration;

use semel_postgres::Options;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

use crate::bank::{Account, Order, Transfer};

/// One connection, shared by all readers and opened again when it breaks.
#[derive(Debug)]
pub(crate) struct Reader {
    options: Options,
    client: Mutex<Option<Arc<Client>>>,
}

/// No answer takes longer.
const LIMIT: Duration = Duration::from_secs(5);

const ACCOUNT: &str = "SELECT id, currency, balance FROM bank.accounts WHERE id = $1";

const TRANSFER: &str = "SELECT id, debited, credited, amount, currency, reference
                        FROM bank.transfers WHERE id = $1";

// === impl Reader ===

impl Reader {
    pub(crate) fn new(options: Options) -> Self {
        Self { options, client: Mutex::default() }
    }

    pub(crate) async fn account(&self, id: &str) -> anyhow::Result<Option<Account>> {
        let row = self.look_up(ACCOUNT, id).await?;
        Ok(row.as_ref().map(Account::read).transpose()?)
    }

    pub(crate) async fn transfer(&self, id: &str) -> anyhow::Result<Option<Transfer>> {
        let row = self.look_up(TRANSFER, id).await?;
        Ok(row.as_ref().map(Transfer::read).transpose()?)
    }

    /// True if the database answers.
    pub(crate) async fn health(&self) -> anyhow::Result<()> {
        self.ask("SELECT 1", &[]).await.map(drop)
    }

    async fn look_up(&self, sql: &str, id: &str) -> anyhow::Result<Option<Row>> {
        // PostgreSQL has no such text, and calls it an error.
        if id.contains('\0') {
            return Ok(None);
        }
        self.ask(sql, &[&id]).await
    }

    async fn ask(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> anyhow::Result<Option<Row>> {
        let answer = async { Ok(self.client().await?.query_opt(sql, params).await?) };
        timeout(LIMIT, answer).await?
    }

    async fn client(&self) -> anyhow::Result<Arc<Client>> {
        let mut client = self.client.lock().await;
        if let Some(open) = client.as_ref().filter(|client| !client.is_closed()) {
            return Ok(open.clone());
        }
        Ok(client.insert(Arc::new(self.options.connect().await?)).clone())
    }
}

// === impl Transfer ===

impl Transfer {
    fn read(row: &Row) -> Result<Self, tokio_postgres::Error> {
        let order = Order {
            from: row.try_get(1)?,
            to: row.try_get(2)?,
            amount: row.try_get(3)?,
            currency: row.try_get(4)?,
            reference: row.try_get(5)?,
        };
        Ok(Self { id: row.try_get(0)?, order })
    }
}
