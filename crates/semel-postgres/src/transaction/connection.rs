//! One connection, used by one transaction at a time.

use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use semel_core::{Attempt, Policy, Settlement, Timestamp};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Row, Statement};

use super::once::BoxError;
use super::permit::moment;
use super::retry::{Failure, Silent, Unsent};
use super::session::{Asked, Found};
use super::usual::Usual;
use super::with_tokio_postgres::{ClaimValues, SettleValues, found};
use super::{Permit, SameTransaction, TransactionClaim, corrupt};
use crate::connect::connect;
use crate::tls::Connector;
use crate::{OpenError, Options};

/// A transaction under way. It goes back where it came from when it ends, and its connection is
/// closed, which rolls it back, when it is dropped before.
pub struct Tx {
    client: Client,
    usual: Usual,
    claim: Statement,
    settle: Statement,
    /// The caller's statements, prepared.
    known: Mutex<HashMap<String, Statement>>,
    driver: AbortHandle,
    /// How long the server may take for what is Semel's own.
    limit: Duration,
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
        let watched = async {
            // Not every machine that a server runs on can tell.
            let _ = client.batch_execute(WATCH).await;
            Ok(())
        };
        let preparing = async {
            tokio::try_join!(
                client.batch_execute(SESSION),
                watched,
                client.prepare(same.claim_sql()),
                client.prepare(same.settle_sql()),
                Usual::prepare(&client, &options.schema),
            )
        };
        let limit = options.verb_timeout;
        let Ok(prepared) = timeout(limit, preparing).await else {
            driver.abort();
            return Err(OpenError::silent(options, limit));
        };
        let ((), (), claim, settle, usual) =
            prepared.map_err(|error| OpenError::query(options, error))?;
        let known = Mutex::default();
        Ok(Self { client, usual, claim, settle, known, driver, limit, place: None })
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

    /// Begins a transaction and claims in it, in one round trip for what is usual. If that fails, no
    /// transaction is under way, unless the connection broke or the server is silent.
    pub(super) async fn begin(
        &self,
        begin: &str,
        same: &SameTransaction,
        attempt: &Attempt,
        policy: &Policy,
    ) -> Result<TransactionClaim, BoxError> {
        let asked = same.asked(attempt, policy);
        let waits = Duration::from_millis(asked.wait_ms.try_into().unwrap_or_default());
        let limit = self.limit.saturating_add(waits);
        let claim = match within(limit, pin!(self.claim(begin, &asked))).await {
            Ok(found) => same
                .answer(found, attempt, policy)
                .map_err(|damage| corrupt::<Error>(attempt.id(), &damage).into()),
            Err(error) => Err(error),
        };
        if let Err(error) = &claim
            && Failure::of(error) != Failure::Lost
        {
            // Heard out: the next try must not meet the lock of this one.
            let _ = self.end("ROLLBACK").await;
        }
        claim
    }

    async fn claim(&self, begin: &str, asked: &Asked) -> Result<Found, Error> {
        if let Some(found) = self.usual.claim(&self.client, begin, asked).await? {
            return Ok(found);
        }
        let values = ClaimValues::new(asked);
        found(&self.client.query_one(&self.claim, &values.params()).await?)
    }

    /// Settles and commits, in one round trip. If the settle fails there is nothing to commit: the
    /// server rolls back instead. If this fails, no transaction is under way, unless the connection
    /// broke or the server is silent.
    pub(super) async fn commit(
        &self,
        permit: Permit,
        settlement: &Settlement,
    ) -> Result<Timestamp, BoxError> {
        let settling = pin!(self.settle_and_commit(permit, settlement));
        let expires = within(self.limit, settling).await?;
        Ok(moment(expires)?)
    }

    async fn settle_and_commit(
        &self,
        permit: Permit,
        settlement: &Settlement,
    ) -> Result<i64, BoxError> {
        let settling = permit.settling(settlement);
        let values = SettleValues::new(&settling);
        let params = values.params();
        let (statement, count) =
            self.usual.settle(&settling).unwrap_or((&self.settle, params.len()));
        let mut settle =
            pin!(async { self.client.query_one(statement, &params[..count]).await?.try_get(0) });
        let commit = self.client.batch_execute("COMMIT");
        // The first poll sends it, or finds that it cannot be sent.
        let (settled, committed) = match poll_fn(|cx| Poll::Ready(settle.as_mut().poll(cx))).await {
            Poll::Pending => tokio::join!(biased; settle, commit),
            Poll::Ready(Ok(expires)) => (Ok(expires), commit.await),
            Poll::Ready(Err(error)) => {
                // No COMMIT may follow: the rows would stay without their record.
                let _ = self.end("ROLLBACK").await;
                return Err(Unsent::unless_told(error));
            }
        };
        // Of two errors the first says why.
        let expires = settled?;
        committed?;
        Ok(expires)
    }

    pub(super) async fn end(&self, how: &str) -> Result<(), BoxError> {
        within(self.limit, pin!(self.client.batch_execute(how))).await
    }

    /// Runs a statement and gives its rows. It is prepared when it comes for the first time on a
    /// connection.
    pub async fn query(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        let answer = self.client.query(&self.prepared(sql).await?, params).await;
        self.heard(sql, answer)
    }

    /// The same for at most one row.
    pub async fn query_opt(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, Error> {
        let answer = self.client.query_opt(&self.prepared(sql).await?, params).await;
        self.heard(sql, answer)
    }

    /// The same for exactly one row.
    pub async fn query_one(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Row, Error> {
        let answer = self.client.query_one(&self.prepared(sql).await?, params).await;
        self.heard(sql, answer)
    }

    /// Runs a statement and gives the number of rows that it changed.
    pub async fn execute(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<u64, Error> {
        let answer = self.client.execute(&self.prepared(sql).await?, params).await;
        self.heard(sql, answer)
    }

    /// The driver's client, for everything else. The transaction is Semel's to end.
    ///
    /// Whoever comes next on this connection finds it as it is left: say `SET LOCAL` for what is to
    /// end with the transaction.
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

    /// Forgets a statement that was prepared for tables as they were before.
    fn heard<T>(&self, sql: &str, answer: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &answer
            && Failure::of_tokio_postgres(error) == Failure::Outdated
        {
            self.known().remove(sql);
        }
        answer
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<String, Statement>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits no longer than that (I10). The connection is of no use when it has passed: whatever comes
/// after would wait behind the same answer.
async fn within<T, E: Into<BoxError>>(
    limit: Duration,
    // In place: moved in here it would lie in everybody's future twice.
    asked: Pin<&mut impl Future<Output = Result<T, E>>>,
) -> Result<T, BoxError> {
    timeout(limit, asked).await.map_err(|_| Silent { limit })?.map_err(Into::into)
}

/// A service that stops in mid-transaction must not hold its locks for ever. Whoever runs the server
/// may have set another limit.
const SESSION: &str = "SELECT set_config('idle_in_transaction_session_timeout', '60s', false)
                       WHERE current_setting('idle_in_transaction_session_timeout') = '0'";

/// A server that is busy with a statement does not notice that the connection is gone, and would keep
/// the key and the rows of the work to itself until the statement ends.
const WATCH: &str = "SELECT set_config('client_connection_check_interval', '1s', false)
                     WHERE current_setting('client_connection_check_interval', true) = '0'";

impl Drop for Tx {
    fn drop(&mut self) {
        // At once: the server rolls back what was under way when it notices that the connection is
        // gone.
        self.driver.abort();
    }
}

impl fmt::Debug for Tx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tx").finish_non_exhaustive()
    }
}
