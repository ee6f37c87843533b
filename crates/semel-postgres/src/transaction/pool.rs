use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_core::{Attempt, Fingerprint, Policy, RecordId, Settlement, Timestamp};
use semel_store::Answer;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::once::{BoxError, Database, OnceError, Work, WorkFuture};
use super::retry::Failure;
use super::{Permit, Retry, SameTransaction, TransactionClaim, Tx};
use crate::tls::{self, Connector};
use crate::{OpenError, Options, schema};

/// Connections for transactions that claim, work and settle. Clones share them.
#[derive(Clone, Debug)]
pub struct TransactionPool {
    same: SameTransaction,
    shared: Arc<Shared>,
    busy_timeout: Duration,
}

struct Shared {
    options: Options,
    connector: Connector,
    /// One permit per connection.
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Tx>>,
    isolation: Isolation,
}

/// The isolation level of the transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// The server's default, usually READ COMMITTED.
    #[default]
    Default,
    /// READ COMMITTED.
    ReadCommitted,
    /// REPEATABLE READ: conflicts are retried.
    RepeatableRead,
    /// SERIALIZABLE: conflicts are retried.
    Serializable,
}

/// The default limit of the wait for a connection (I10).
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

// === impl TransactionPool ===

impl TransactionPool {
    /// Connects, and checks the schema and the durability of the server.
    pub async fn open(options: Options) -> Result<Self, OpenError> {
        Self::open_with(options, Isolation::Default).await
    }

    /// The same with another isolation level.
    pub async fn open_with(options: Options, isolation: Isolation) -> Result<Self, OpenError> {
        let connector = tls::connector(&options.tls)?;
        schema::check(&options, &connector).await?;
        let same = SameTransaction::with_schema(&options.schema);
        let permits = Arc::new(Semaphore::new(options.pool_max));
        let shared = Shared { options, connector, permits, idle: Mutex::default(), isolation };
        Ok(Self { same, shared: Arc::new(shared), busy_timeout: BUSY_TIMEOUT })
    }

    /// The same with another retry rule.
    #[must_use]
    pub fn retry(self, retry: Retry) -> Self {
        Self { same: self.same.retry(retry), ..self }
    }

    /// The same with another limit of the wait for a connection; the default is 10 s.
    #[must_use]
    pub fn busy_timeout(self, limit: Duration) -> Self {
        Self { busy_timeout: limit, ..self }
    }

    /// The mode in this pool's schema, with its retry rule.
    pub fn same_transaction(&self) -> SameTransaction {
        self.same.clone()
    }

    /// Does a piece of work once; see [`SameTransaction::once`].
    pub async fn once<W>(
        &self,
        id: RecordId,
        fingerprint: Fingerprint,
        policy: &Policy,
        work: W,
    ) -> Result<Answer, OnceError>
    where
        W: for<'w> FnMut(&'w mut Work<'_, Tx>) -> WorkFuture<'w> + Send,
    {
        self.same.once(self, id, fingerprint, policy, work).await
    }

    /// An idle connection, or a new one. The flag says whether it was used before.
    async fn acquire(&self) -> Result<(Tx, bool), BoxError> {
        let shared = &self.shared;
        let limit = self.busy_timeout;
        let permit =
            timeout(limit, shared.permits.clone().acquire_owned()).await.map_err(|_| {
                let most = shared.options.pool_max;
                format!("all {most} connections were in use for {limit:?}; raise pool_max")
            })??;
        loop {
            let idle = shared.idle().pop();
            return match idle {
                Some(tx) if !tx.is_open() => continue,
                Some(tx) => Ok((tx.with_permit(permit), true)),
                None => {
                    // Boxed: it is large and rare, and would enlarge every caller's future.
                    let open = Tx::open(&shared.options, &shared.connector, &self.same);
                    Ok((Box::pin(open).await?.with_permit(permit), false))
                }
            };
        }
    }

    /// Keeps a connection whose transaction was a victim of a conflict: conflicts are common, and the
    /// next try would have to connect again. After other failures it may be unfit for use.
    fn failed(&self, tx: Tx, error: BoxError) -> BoxError {
        if Failure::of(&error) == Failure::Conflict {
            self.give_back(tx);
        }
        error
    }

    /// A lost claim may have reached the server, and this claim may have found its lock: then "in flight"
    /// is no answer yet, and the loss is returned.
    async fn check_lost_claim(
        &self,
        tx: Tx,
        claim: TransactionClaim,
        lost_claim: Option<BoxError>,
    ) -> Result<(Tx, TransactionClaim), BoxError> {
        match (claim, lost_claim) {
            (TransactionClaim::InFlight { .. }, Some(lost_claim)) => {
                // If this fails the connection is closed, which has the same effect.
                let _ = self.end(tx, false).await;
                Err(lost_claim)
            }
            (claim, _) => Ok((tx, claim)),
        }
    }

    fn give_back(&self, tx: Tx) {
        if tx.is_open() {
            // First the connection, then its permit: the next holder of the permit finds it.
            tx.release(|tx| self.shared.idle().push(tx));
        }
    }
}

impl Database for TransactionPool {
    type Tx = Tx;

    async fn begin(
        &self,
        same: &SameTransaction,
        attempt: &Attempt,
        policy: &Policy,
    ) -> Result<(Tx, TransactionClaim), BoxError> {
        let mut lost_claim = None;
        loop {
            let (tx, used_before) = self.acquire().await?;
            match tx.begin(self.shared.isolation.begin(), same, attempt, policy).await {
                Ok(claim) => return self.check_lost_claim(tx, claim, lost_claim).await,
                // It probably broke while idle, and so did the others: a new connection is tried.
                Err(error)
                    if used_before
                        && lost_claim.is_none()
                        && Failure::of(&error) == Failure::Lost =>
                {
                    drop(tx);
                    self.shared.drop_idle();
                    lost_claim = Some(error);
                }
                Err(error) => return Err(self.failed(tx, error)),
            }
        }
    }

    async fn commit(
        &self,
        tx: Tx,
        permit: Permit,
        settlement: &Settlement,
    ) -> Result<Timestamp, BoxError> {
        match tx.commit(permit, settlement).await {
            Ok(expires) => {
                self.give_back(tx);
                Ok(expires)
            }
            Err(error) => Err(self.failed(tx, error)),
        }
    }

    async fn end(&self, tx: Tx, keep: bool) -> Result<(), BoxError> {
        tx.end(if keep { "COMMIT" } else { "ROLLBACK" }).await?;
        self.give_back(tx);
        Ok(())
    }
}

// === impl Isolation ===

impl Isolation {
    const fn begin(self) -> &'static str {
        match self {
            Self::Default => "BEGIN",
            Self::ReadCommitted => "BEGIN ISOLATION LEVEL READ COMMITTED",
            Self::RepeatableRead => "BEGIN ISOLATION LEVEL REPEATABLE READ",
            Self::Serializable => "BEGIN ISOLATION LEVEL SERIALIZABLE",
        }
    }
}

// === impl Shared ===

impl Shared {
    fn idle(&self) -> MutexGuard<'_, Vec<Tx>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn drop_idle(&self) {
        // Dropped after the lock is released.
        let idle = std::mem::take(&mut *self.idle());
        drop(idle);
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("options", &self.options).finish_non_exhaustive()
    }
}
