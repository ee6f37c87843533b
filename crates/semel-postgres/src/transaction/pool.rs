use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_core::{Attempt, Fingerprint, Policy, RecordId, Settlement, Timestamp};
use semel_engine::Answer;
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
    /// One permit per connection that may be in use.
    places: Arc<Semaphore>,
    idle: Mutex<Vec<Tx>>,
    isolation: Isolation,
}

/// How much of other transactions the work may see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// What the server's default is, which is usually READ COMMITTED.
    #[default]
    Default,
    /// READ COMMITTED.
    ReadCommitted,
    /// REPEATABLE READ: conflicts are tried again.
    RepeatableRead,
    /// SERIALIZABLE: conflicts are tried again.
    Serializable,
}

/// How long to wait for a connection that others use, unless told (I10).
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

// === impl TransactionPool ===

impl TransactionPool {
    /// Connects, and checks that the server can keep what it is given.
    pub async fn open(options: Options) -> Result<Self, OpenError> {
        Self::open_with(options, Isolation::Default).await
    }

    /// The same for transactions of another isolation.
    pub async fn open_with(options: Options, isolation: Isolation) -> Result<Self, OpenError> {
        let connector = tls::connector(&options.tls)?;
        schema::check(&options, &connector).await?;
        let same = SameTransaction::with_schema(&options.schema);
        let places = Arc::new(Semaphore::new(options.lanes_max));
        let shared = Shared { options, connector, places, idle: Mutex::default(), isolation };
        Ok(Self { same, shared: Arc::new(shared), busy_timeout: BUSY_TIMEOUT })
    }

    /// The same with another rule for failed transactions.
    #[must_use]
    pub fn retry(self, retry: Retry) -> Self {
        Self { same: self.same.retry(retry), ..self }
    }

    /// The same with another limit to how long a transaction waits while all connections are in use;
    /// 10 s unless told.
    #[must_use]
    pub fn busy_timeout(self, limit: Duration) -> Self {
        Self { busy_timeout: limit, ..self }
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

    /// A connection that nobody uses, or a new one. The flag says whether it was used before.
    async fn take(&self) -> Result<(Tx, bool), BoxError> {
        let shared = &self.shared;
        let limit = self.busy_timeout;
        let place =
            timeout(limit, shared.places.clone().acquire_owned()).await.map_err(|_| {
                let most = shared.options.lanes_max;
                format!("all {most} connections were in use for {limit:?}; raise pool_max")
            })??;
        loop {
            let idle = shared.idle().pop();
            return match idle {
                Some(tx) if !tx.is_open() => continue,
                Some(tx) => Ok((tx.at(place), true)),
                None => {
                    // Boxed: it is large, rare, and in everybody's way.
                    let open = Tx::open(&shared.options, &shared.connector, &self.same);
                    Ok((Box::pin(open).await?.at(place), false))
                }
            };
        }
    }

    /// Keeps a connection whose transaction was given up for another: conflicts are common, and those
    /// who try again would have to connect anew. What failed otherwise may not be fit for use.
    fn failed(&self, tx: Tx, error: BoxError) -> BoxError {
        if Failure::of(&error) == Failure::Conflict {
            self.give_back(tx);
        }
        error
    }

    /// A claim that was lost may have reached the server, and its lock may be what this one met: that
    /// is no answer yet, and the loss is.
    async fn heard(
        &self,
        tx: Tx,
        claim: TransactionClaim,
        lost: Option<BoxError>,
    ) -> Result<(Tx, TransactionClaim), BoxError> {
        match (claim, lost) {
            (TransactionClaim::InFlight { .. }, Some(lost)) => {
                // If this fails the connection is cut, which is as good.
                let _ = self.end(tx, false).await;
                Err(lost)
            }
            (claim, _) => Ok((tx, claim)),
        }
    }

    fn give_back(&self, tx: Tx) {
        if tx.is_open() {
            // First the connection, then its place: whoever gets the place finds it.
            tx.leave(|tx| self.shared.idle().push(tx));
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
        let mut lost = None;
        loop {
            let (tx, used_before) = self.take().await?;
            match tx.begin(self.shared.isolation.begin(), same, attempt, policy).await {
                Ok(claim) => return self.heard(tx, claim, lost).await,
                // It probably broke while nobody used it, and so did the others: a new one can tell.
                Err(error)
                    if used_before && lost.is_none() && Failure::of(&error) == Failure::Lost =>
                {
                    drop(tx);
                    self.shared.drop_idle();
                    lost = Some(error);
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
        // Dropped when nobody waits for the list any more.
        let idle = std::mem::take(&mut *self.idle());
        drop(idle);
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("options", &self.options).finish_non_exhaustive()
    }
}
