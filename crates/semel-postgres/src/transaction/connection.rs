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

use super::fast_path::FastPath;
use super::once::BoxError;
use super::permit::moment;
use super::retry::{CommitNotSent, Failure, Timeout};
use super::session::{ClaimReply, ClaimRequest};
use super::with_tokio_postgres::{ClaimValues, SettleValues, found};
use super::{Permit, SameTransaction, TransactionClaim, corrupt};
use crate::connect::connect;
use crate::tls::Connector;
use crate::{OpenError, Options};

/// A transaction under way. When it ends it returns to its pool; when it is dropped earlier its
/// connection is closed, which rolls it back.
pub struct Tx {
    client: Client,
    fast_path: FastPath,
    claim: Statement,
    settle: Statement,
    /// The caller's prepared statements.
    cached: Mutex<HashMap<String, Statement>>,
    driver: AbortHandle,
    /// The timeout of Semel's own statements.
    limit: Duration,
    /// Its permit of the pool.
    permit: Option<OwnedSemaphorePermit>,
}

/// The maximum number of prepared statements of the caller (I10).
const PREPARED_MAX: usize = 256;

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
            // Not supported on every platform of the server.
            let _ = client.batch_execute(DETECT_CLOSED_CLIENT).await;
            Ok(())
        };
        let preparing = async {
            tokio::try_join!(
                client.batch_execute(IDLE_LIMIT),
                watched,
                client.prepare(same.claim_sql()),
                client.prepare(same.settle_sql()),
                FastPath::prepare(&client, &options.schema),
            )
        };
        let limit = options.verb_timeout;
        let Ok(prepared) = timeout(limit, preparing).await else {
            driver.abort();
            return Err(OpenError::timed_out(options, limit));
        };
        let ((), (), claim, settle, fast_path) =
            prepared.map_err(|error| OpenError::query(options, error))?;
        let cached = Mutex::default();
        Ok(Self { client, fast_path, claim, settle, cached, driver, limit, permit: None })
    }

    /// Attaches the pool's permit.
    pub(super) fn with_permit(mut self, permit: OwnedSemaphorePermit) -> Self {
        self.permit = Some(permit);
        self
    }

    /// Returns to the idle connections, and then releases the permit.
    pub(super) fn release(mut self, to: impl FnOnce(Self)) {
        let permit = self.permit.take();
        to(self);
        drop(permit);
    }

    /// Whether it can be used for another transaction.
    pub(super) fn is_open(&self) -> bool {
        !self.client.is_closed()
    }

    /// Begins a transaction and claims in it, on the fast path in one round trip. If that fails, no
    /// transaction is under way, unless the connection broke or the server is unresponsive.
    pub(super) async fn begin(
        &self,
        begin: &str,
        same: &SameTransaction,
        attempt: &Attempt,
        policy: &Policy,
    ) -> Result<TransactionClaim, BoxError> {
        let request = same.claim_request(attempt, policy);
        let waits = Duration::from_millis(request.wait_ms.try_into().unwrap_or_default());
        let limit = self.limit.saturating_add(waits);
        let claim = match with_timeout(limit, pin!(self.claim(begin, &request))).await {
            Ok(found) => same
                .answer(found, attempt, policy)
                .map_err(|damage| corrupt::<Error>(attempt.id(), &damage).into()),
            Err(error) => Err(error),
        };
        if let Err(error) = &claim
            && Failure::of(error) != Failure::Lost
        {
            // Waits for the rollback: the next try must not find the lock of this one.
            let _ = self.end("ROLLBACK").await;
        }
        claim
    }

    async fn claim(&self, begin: &str, request: &ClaimRequest) -> Result<ClaimReply, Error> {
        if let Some(found) = self.fast_path.claim(&self.client, begin, request).await? {
            return Ok(found);
        }
        let values = ClaimValues::new(request);
        found(&self.client.query_one(&self.claim, &values.params()).await?)
    }

    /// Settles and commits, in one round trip. If the settle fails there is nothing to commit: the server
    /// rolls back instead. If this fails, no transaction is under way, unless the connection broke or the
    /// server is unresponsive.
    pub(super) async fn commit(
        &self,
        permit: Permit,
        settlement: &Settlement,
    ) -> Result<Timestamp, BoxError> {
        let request = pin!(self.settle_and_commit(permit, settlement));
        let expires = with_timeout(self.limit, request).await?;
        Ok(moment(expires)?)
    }

    async fn settle_and_commit(
        &self,
        permit: Permit,
        settlement: &Settlement,
    ) -> Result<i64, BoxError> {
        let request = permit.request(settlement);
        let values = SettleValues::new(&request);
        let params = values.params();
        let (statement, count) =
            self.fast_path.settle(&request).unwrap_or((&self.settle, params.len()));
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
                return Err(CommitNotSent::wrap_unless_definite(error));
            }
        };
        // Of two errors the first is the cause.
        let expires = settled?;
        committed?;
        Ok(expires)
    }

    pub(super) async fn end(&self, how: &str) -> Result<(), BoxError> {
        with_timeout(self.limit, pin!(self.client.batch_execute(how))).await
    }

    /// Runs a statement and returns its rows. It is prepared on its first use on a connection.
    pub async fn query(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        let answer = self.client.query(&self.prepared(sql).await?, params).await;
        self.drop_stale_statement(sql, answer)
    }

    /// The same for at most one row.
    pub async fn query_opt(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, Error> {
        let answer = self.client.query_opt(&self.prepared(sql).await?, params).await;
        self.drop_stale_statement(sql, answer)
    }

    /// The same for exactly one row.
    pub async fn query_one(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Row, Error> {
        let answer = self.client.query_one(&self.prepared(sql).await?, params).await;
        self.drop_stale_statement(sql, answer)
    }

    /// Runs a statement and returns the number of rows that it changed.
    pub async fn execute(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<u64, Error> {
        let answer = self.client.execute(&self.prepared(sql).await?, params).await;
        self.drop_stale_statement(sql, answer)
    }

    /// The driver's client, for everything else. The transaction is Semel's to end.
    ///
    /// The next transaction on this connection finds its session as you leave it: use `SET LOCAL` for
    /// settings that must end with the transaction.
    pub fn client(&self) -> &Client {
        &self.client
    }

    async fn prepared(&self, sql: &str) -> Result<Statement, Error> {
        if let Some(cached) = self.cached().get(sql) {
            return Ok(cached.clone());
        }
        let statement = self.client.prepare(sql).await?;
        let mut cached = self.cached();
        if cached.len() < PREPARED_MAX {
            cached.insert(sql.to_owned(), statement.clone());
        }
        Ok(statement)
    }

    /// Drops a statement that was prepared before its tables were changed.
    fn drop_stale_statement<T>(&self, sql: &str, answer: Result<T, Error>) -> Result<T, Error> {
        if let Err(error) = &answer
            && Failure::of_tokio_postgres(error) == Failure::Outdated
        {
            self.cached().remove(sql);
        }
        answer
    }

    fn cached(&self) -> std::sync::MutexGuard<'_, HashMap<String, Statement>> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Applies a timeout (I10). After a timeout the connection must be dropped: later statements would wait
/// for the same answer.
async fn with_timeout<T, E: Into<BoxError>>(
    limit: Duration,
    // A reference: by value the caller's future would contain it twice.
    request: Pin<&mut impl Future<Output = Result<T, E>>>,
) -> Result<T, BoxError> {
    timeout(limit, request).await.map_err(|_| Timeout { limit })?.map_err(Into::into)
}

/// A service that stops in the middle of a transaction must not hold its locks for ever. The server's
/// operator may have set another limit.
const IDLE_LIMIT: &str = "SELECT set_config('idle_in_transaction_session_timeout', '60s', false)
                       WHERE current_setting('idle_in_transaction_session_timeout') = '0'";

/// A server that is busy with a statement does not notice that the connection is gone, and would hold the
/// locks of the key and the rows until the statement ends.
const DETECT_CLOSED_CLIENT: &str =
    "SELECT set_config('client_connection_check_interval', '1s', false)
                     WHERE current_setting('client_connection_check_interval', true) = '0'";

impl Drop for Tx {
    fn drop(&mut self) {
        // At once: the server rolls back when it notices that the connection is gone.
        self.driver.abort();
    }
}

impl fmt::Debug for Tx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tx").finish_non_exhaustive()
    }
}
