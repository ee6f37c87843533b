//! One connection, used by one transaction at a time.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use semel_core::{Attempt, Policy, Settlement, Timestamp};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::AbortHandle;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, Statement};

use super::once::BoxError;
use super::permit::moment;
use super::with_tokio_postgres::{ClaimValues, SettleValues, found};
use super::{Permit, SameTransaction, TransactionClaim};
use crate::lane::connect;
use crate::tls::Connector;
use crate::{OpenError, Options};

/// A transaction under way. It goes back where it came from when it ends, and its connection is
/// closed, which rolls it back, when it is dropped before.
pub struct Tx {
    client: Client,
    claim: Statement,
    settle: Statement,
    /// The caller's statements, prepared.
    known: Mutex<HashMap<String, Statement>>,
    driver: AbortHandle,
    /// Its place among those in use.
    place: Option<OwnedSemaphorePermit>,
}

/// How many of the caller's statements are kept prepared on a connection (I10).
const KNOWN_MAX: usize = 256;

// === impl Tx ===

impl Tx {
    pub(super) async fn open(
        options: &Options,
        connector: &Connector,
        same: &SameTransaction,
    ) -> Result<Self, OpenError> {
        let (client, driver) = connect(options, connector).await?;
        let driver = tokio::spawn(driver).abort_handle();
        let prepared = tokio::try_join!(
            client.batch_execute(SESSION),
            client.prepare(same.claim_sql()),
            client.prepare(same.settle_sql()),
        );
        let ((), claim, settle) = prepared.map_err(|error| OpenError::query(options, error))?;
        Ok(Self { client, claim, settle, known: Mutex::default(), driver, place: None })
    }

    /// Takes a place among those in use.
    pub(super) fn at(mut self, place: OwnedSemaphorePermit) -> Self {
        self.place = Some(place);
        self
    }

    /// Goes to where the idle ones are, and then gives its place back.
    pub(super) fn leave(mut self, to: impl FnOnce(Self)) {
        let place = self.place.take();
        to(self);
        drop(place);
    }

    /// Can it be used for another transaction?
    pub(super) fn is_open(&self) -> bool {
        !self.client.is_closed()
    }

    /// Begins a transaction and claims in it, in one round trip.
    pub(super) async fn begin(
        &self,
        begin: &str,
        same: &SameTransaction,
        attempt: &Attempt,
        policy: &Policy,
    ) -> Result<TransactionClaim, BoxError> {
        let asked = same.asked(attempt, policy);
        let values = ClaimValues::new(&asked);
        let params = values.params();
        let claim = async { found(&self.client.query_one(&self.claim, &params).await?) };
        // Sent in this order, before any answer.
        let ((), found) = tokio::try_join!(biased; self.client.batch_execute(begin), claim)?;
        Ok(same.answer(found, attempt, policy)?)
    }

    /// Settles and commits, in one round trip. If the settle fails there is nothing to commit: the
    /// server rolls back instead.
    pub(super) async fn commit(
        &self,
        permit: Permit,
        settlement: &Settlement,
    ) -> Result<Timestamp, BoxError> {
        let settling = permit.settling(settlement);
        let values = SettleValues::new(&settling);
        let params = values.params();
        let settle = async { self.client.query_one(&self.settle, &params).await?.try_get(0) };
        let (expires, ()) = tokio::try_join!(biased; settle, self.client.batch_execute("COMMIT"))?;
        Ok(moment(expires)?)
    }

    pub(super) async fn end(&self, how: &str) -> Result<(), Error> {
        self.client.batch_execute(how).await
    }

    /// Runs a statement and gives its rows. It is prepared when it comes for the first time on a
    /// connection.
    pub async fn query(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        self.client.query(&self.prepared(sql).await?, params).await
    }

    /// The same for at most one row.
    pub async fn query_opt(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, Error> {
        self.client.query_opt(&self.prepared(sql).await?, params).await
    }

    /// The same for exactly one row.
    pub async fn query_one(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Row, Error> {
        self.client.query_one(&self.prepared(sql).await?, params).await
    }

    /// Runs a statement and gives the number of rows that it changed.
    pub async fn execute(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<u64, Error> {
        self.client.execute(&self.prepared(sql).await?, params).await
    }

    /// The driver's client, for everything else. The transaction is Semel's to end.
    pub fn client(&self) -> &Client {
        &self.client
    }

    async fn prepared(&self, sql: &str) -> Result<Statement, Error> {
        if let Some(known) = self.known().get(sql) {
            return Ok(known.clone());
        }
        let statement = self.client.prepare(sql).await?;
        let mut known = self.known();
        if known.len() < KNOWN_MAX {
            known.insert(sql.to_owned(), statement.clone());
        }
        Ok(statement)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<String, Statement>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A service that stops in mid-transaction must not hold its locks for ever.
const SESSION: &str = "SET idle_in_transaction_session_timeout = '60s'";

impl Drop for Tx {
    fn drop(&mut self) {
        // At once: the server rolls back what was under way as soon as the connection is gone.
        self.driver.abort();
    }
}

impl fmt::Debug for Tx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tx").finish_non_exhaustive()
    }
}
