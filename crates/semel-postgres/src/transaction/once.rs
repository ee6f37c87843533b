//! A piece of work from its claim to its commit.

use std::error::Error;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;

use semel_core::{
    Attempt, Fence, Fingerprint, Outcome, Owner, Policy, RecordId, Settlement, Timestamp,
};
use semel_engine::{Answer, Stored};
use tokio::time::sleep;

use super::retry::Failure;
use super::{Event, Permit, SameTransaction, TransactionClaim};

/// Any error. The driver's own ones are recognised in it, also beneath others.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// What a piece of work returns.
pub type WorkFuture<'w> = Pin<Box<dyn Future<Output = Result<Outcome, BoxError>> + Send + 'w>>;

/// Where transactions come from.
pub trait Database: Send + Sync {
    /// A transaction.
    type Tx: Send;

    /// Begins a transaction and claims in it.
    fn begin(
        &self,
        same: &SameTransaction,
        attempt: &Attempt,
        policy: &Policy,
    ) -> impl Future<Output = Result<(Self::Tx, TransactionClaim), BoxError>> + Send;

    /// Settles and commits.
    fn commit(
        &self,
        tx: Self::Tx,
        permit: Permit,
        settlement: &Settlement,
    ) -> impl Future<Output = Result<Timestamp, BoxError>> + Send;

    /// Ends a transaction: keeps what the claim wrote, or nothing.
    fn end(&self, tx: Self::Tx, keep: bool) -> impl Future<Output = Result<(), BoxError>> + Send;
}

/// The transaction that a piece of work is done in; it stands for the driver's own.
#[derive(Debug)]
pub struct Work<'t, T> {
    tx: &'t mut T,
    permit: &'t mut Permit,
}

/// Why a piece of work was not done. But for [`Lost`](OnceError::Lost), nothing of it is there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnceError {
    /// The work itself failed.
    #[error("the work failed and was rolled back: {0}")]
    Work(#[source] BoxError),
    /// The database could not be asked, or kept refusing.
    #[error("nothing was done: {0}")]
    Unavailable(#[source] BoxError),
    /// The connection broke, again and again, the last time perhaps while committing: the same
    /// attempt may come again, and is then told.
    #[error("the connection broke, and the work may or may not have been done: {0}")]
    Lost(#[source] BoxError),
}

/// A try that failed, and how far it had come.
enum Stopped {
    AtBegin(BoxError),
    AtWork(BoxError),
    AtCommit(BoxError),
}

// === impl SameTransaction ===

impl SameTransaction {
    /// Does a piece of work once: claims, works, settles and commits in one transaction.
    ///
    /// The work may be called again if the transaction failed by a conflict or a lost connection;
    /// whatever it did in the database before is then gone. How it ends decides what stays:
    ///
    /// - [`Completed`](Outcome::Completed): all of it, with the outcome.
    /// - [`Failed`](Outcome::Failed): the outcome alone. The rows of the work are rolled back, and
    ///   its events are not published.
    /// - [`FailedForNow`](Outcome::FailedForNow), [`Unknown`](Outcome::Unknown) or an error: nothing.
    pub async fn once<D, W>(
        &self,
        database: &D,
        id: RecordId,
        fingerprint: Fingerprint,
        policy: &Policy,
        mut work: W,
    ) -> Result<Answer, OnceError>
    where
        D: Database,
        W: for<'w> FnMut(&'w mut Work<'_, D::Tx>) -> WorkFuture<'w> + Send,
    {
        let mut tried = 0;
        loop {
            tried += 1;
            // Each try is an attempt of its own: what came of the last is in the record.
            let attempt = Attempt::new(id, fingerprint, Owner::from_u128(rand::random()));
            let stopped = match self.attempt(database, &attempt, policy, &mut work).await {
                Ok(answer) => return Ok(answer),
                Err(stopped) => stopped,
            };
            match stopped.pause(self, tried) {
                Some(pause) => {
                    tracing::debug!(record = %id.prefix(), tried, error = %stopped.error(), "again");
                    sleep(pause).await;
                }
                None => return Err(stopped.into_error()),
            }
        }
    }

    async fn attempt<D, W>(
        &self,
        database: &D,
        attempt: &Attempt,
        policy: &Policy,
        work: &mut W,
    ) -> Result<Answer, Stopped>
    where
        D: Database,
        W: for<'w> FnMut(&'w mut Work<'_, D::Tx>) -> WorkFuture<'w> + Send,
    {
        let begun = database.begin(self, attempt, policy).await.map_err(Stopped::AtBegin)?;
        let (mut tx, mut permit) = match begun {
            (tx, TransactionClaim::Execute(permit)) => (tx, permit),
            (tx, other) => return told(database, tx, other).await,
        };
        let fence = permit.fence();
        let worked = work(&mut Work { tx: &mut tx, permit: &mut permit }).await;
        let outcome = match worked {
            Ok(outcome) => outcome,
            Err(error) => {
                // Whatever this says, the transaction ends with its connection.
                let _ = database.end(tx, false).await;
                return Err(Stopped::AtWork(error));
            }
        };
        match outcome {
            Outcome::Completed(reply) => {
                let settlement = Settlement::Completed(reply);
                committed(database, tx, permit, settlement).await
            }
            Outcome::Failed(reply) => {
                database.end(tx, false).await.map_err(Stopped::AtWork)?;
                self.fail(database, attempt, policy, Settlement::Failed(reply)).await
            }
            Outcome::FailedForNow(_) | Outcome::Unknown(_) => {
                // In a transaction nothing is unknown: it did not commit.
                database.end(tx, false).await.map_err(Stopped::AtWork)?;
                Ok(Answer::Released { outcome, fence })
            }
        }
    }

    /// Records a failure in a transaction of its own, after the work was rolled back.
    async fn fail<D: Database>(
        &self,
        database: &D,
        attempt: &Attempt,
        policy: &Policy,
        settlement: Settlement,
    ) -> Result<Answer, Stopped> {
        match database.begin(self, attempt, policy).await.map_err(Stopped::AtBegin)? {
            (tx, TransactionClaim::Execute(permit)) => {
                committed(database, tx, permit, settlement).await
            }
            // A duplicate was faster: its outcome counts (I4).
            (tx, other) => told(database, tx, other).await,
        }
    }
}

async fn committed<D: Database>(
    database: &D,
    tx: D::Tx,
    permit: Permit,
    settlement: Settlement,
) -> Result<Answer, Stopped> {
    let fence: Fence = permit.fence();
    let expires = database.commit(tx, permit, &settlement).await.map_err(Stopped::AtCommit)?;
    Ok(Answer::Executed { settlement, expires, fence, stored: Stored::Durable })
}

/// Ends a transaction in which there is nothing to do.
async fn told<D: Database>(
    database: &D,
    tx: D::Tx,
    claim: TransactionClaim,
) -> Result<Answer, Stopped> {
    let answer = match claim {
        TransactionClaim::Replay { settlement, expires } => {
            Answer::Replayed { settlement, expires }
        }
        TransactionClaim::InFlight { now } => Answer::InFlight { until: now },
        TransactionClaim::Mismatch => Answer::Mismatch,
        TransactionClaim::Unknown | TransactionClaim::Execute(_) => Answer::Unknown { reply: None },
    };
    // An abandoned lease may have been failed by the claim: then that is the outcome, and must be
    // durable before it is told (I6).
    let keep = matches!(answer, Answer::Replayed { settlement: Settlement::Abandoned, .. });
    match database.end(tx, keep).await {
        Err(error) if keep => Err(Stopped::AtCommit(error)),
        _ => Ok(answer),
    }
}

// === impl Stopped ===

impl Stopped {
    fn error(&self) -> &BoxError {
        match self {
            Self::AtBegin(error) | Self::AtWork(error) | Self::AtCommit(error) => error,
        }
    }

    /// How long to wait before the next try; `None` gives up.
    fn pause(&self, same: &SameTransaction, tried: u32) -> Option<std::time::Duration> {
        match Failure::of(self.error()) {
            Failure::Conflict | Failure::Lost => same.retries().pause_after(tried),
            Failure::Final => None,
        }
    }

    fn into_error(self) -> OnceError {
        match self {
            Self::AtBegin(error) => OnceError::Unavailable(error),
            Self::AtWork(error) => OnceError::Work(error),
            Self::AtCommit(error) => match Failure::of(&error) {
                Failure::Lost => OnceError::Lost(error),
                // The server said that it did not commit.
                Failure::Conflict | Failure::Final => OnceError::Work(error),
            },
        }
    }
}

// === impl Work ===

impl<T> Work<'_, T> {
    /// Has an event written together with the outcome, if it is completed.
    pub fn stage(&mut self, event: Event) {
        self.permit.stage(event);
    }

    /// The number of this attempt among those that were granted a lease or a permit.
    pub fn fence(&self) -> Fence {
        self.permit.fence()
    }
}

impl<T> Deref for Work<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.tx
    }
}

impl<T> DerefMut for Work<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.tx
    }
}
