//! One round trip of a verb.

use semel_store::{StoreError, Swept};
use tokio::time::{Instant, timeout_at};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

use super::{Pool, Statements};
use crate::error::{spoils_connection, verb_failed};

pub(crate) type Param<'a> = &'a (dyn ToSql + Sync);

// === impl Pool ===

impl Pool {
    /// Makes the round trip of a verb. `None` if the statement returned no row.
    pub(crate) async fn query(
        &self,
        verb: &'static str,
        statement: fn(&Statements) -> &Statement,
        params: &[Param<'_>],
    ) -> Result<Option<Row>, StoreError> {
        let limit = self.options().verb_timeout;
        let deadline = Instant::now() + limit;
        let Ok(connection) = timeout_at(deadline, self.get()).await else {
            let what = format!("no connection to {} within {limit:?}", self.options());
            return Err(StoreError::unavailable(what));
        };
        let mut connection = connection?;
        let query = connection.client.query_opt(statement(&connection.statements), params);
        match timeout_at(deadline, query).await {
            Ok(Ok(row)) => {
                connection.answered();
                Ok(row)
            }
            Ok(Err(error)) => {
                connection.answered();
                if spoils_connection(&error) {
                    connection.retire();
                }
                Err(verb_failed(verb, &self.options().schema, error))
            }
            // The server's limit is shorter than ours, so the connection may be broken. It is probed:
            // others may still get their answers on it.
            Err(_) => Err(StoreError::deadline(verb, limit)),
        }
    }

    /// The same for a function, which always returns a row.
    pub(crate) async fn call(
        &self,
        verb: &'static str,
        statement: fn(&Statements) -> &Statement,
        params: &[Param<'_>],
    ) -> Result<Row, StoreError> {
        let row = self.query(verb, statement, params).await?;
        row.ok_or_else(|| StoreError::Corrupt { what: format!("{verb} gave no row") })
    }

    pub(crate) async fn sweep(&self, limit: usize) -> Result<Swept, StoreError> {
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let row = self.call("sweep", |s| &s.sweep, &[&limit]).await?;
        let (deleted, more): (i32, bool) = (row.get(0), row.get(1));
        Ok(Swept { deleted: usize::try_from(deleted).unwrap_or(0), more })
    }
}
