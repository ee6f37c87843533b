//! A piece of work, from its claim to its commit.

use std::error::Error;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::time::Duration;

use semel_core::{
    Attempt, Fence, Fingerprint, Outcome, Owner, Policy, RecordId, Settlement, Timestamp,
};
use semel_store::{Answer, StoreError, Stored};
use tokio::time::sleep;

use super::retry::Failure;
use super::{Event, Permit, Retry, SameTransaction, TransactionClaim};

/// Any error. The driver's errors are recognised in it, also as causes of others.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The future of a piece of work.
pub type WorkFuture<'w> = Pin<Box<dyn Future<Output = Result<Outcome, BoxError>> + Send + 'w>>;

/// A source of transactions.
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

/// The transaction of a piece of work; it dereferences to the driver's own.
#[derive(Debug)]
pub struct Work<'t, T> {
    tx: &'t mut T,
    permit: &'t mut Permit,
}

/// Why a piece of work was not done. Except for [`Lost`](OnceError::Lost), nothing of it was committed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnceError {
    /// The work itself failed.
    #[error("the work failed and was rolled back: {0}")]
    Work(#[source] BoxError),
    /// The database was unreachable, or kept refusing.
    #[error("nothing was done: {0}")]
    Unavailable(#[source] BoxError),
    /// The connection broke, or the answer made no sense, perhaps while committing, and a further try
    /// could not find out: the same attempt may come again, and then gets the answer.
    #[error("the connection broke, and the work may or may not have been done: {0}")]
    Lost(#[source] BoxError),
}

/// The state of the tries so far.
#[derive(Debug, Default)]
struct Tries {
    made: u32,
    /// A connection broke. Its transaction may still be there until the server notices.
    lost: bool,
    /// One broke while committing, and the outcome is still unknown.
    in_doubt: bool,
}

/// A failed try, by the phase that failed: the begin, the work, or the commit.
#[derive(Debug)]
enum Stopped {
    Begin(BoxError),
    Work(BoxError),
    Commit(BoxError),
}

// === impl SameTransaction ===

impl SameTransaction {
    /// Does a piece of work once: claims, works, settles and commits in one transaction.
    ///
    /// The work may be called again if the transaction failed by a conflict or a lost connection; its
    /// earlier changes in the database are then rolled back. The result decides what is committed:
    ///
    /// - [`Completed`](Outcome::Completed): all of it, with the outcome.
    /// - [`Failed`](Outcome::Failed): the outcome alone. The rows of the work are rolled back, and
    ///   its events are not published.
    /// - [`FailedForNow`](Outcome::FailedForNow), [`Unknown`](Outcome::Unknown) or an error: nothing.
    ///
    /// It may be dropped at any time: work under way is rolled back, or was just committed, and the same
    /// attempt gets the outcome when it comes again. It has no timeout of its own, as the work has none;
    /// put one around it. A [`TransactionPool`](super::TransactionPool) applies the verb timeout of its
    /// options to its own steps.
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
        let mut tries = Tries::default();
        loop {
            // Each try is an attempt of its own: the result of the previous one is in the record.
            let attempt = Attempt::new(id, fingerprint, Owner::from_u128(rand::random()));
            let result = self.attempt(database, &attempt, policy, &mut work).await;
            match tries.after(&result, self.retries()) {
                Some(pause) => {
                    let error = result.err().map(|stopped| stopped.message());
                    tracing::debug!(record = %id.prefix(), tried = tries.made, error, "again");
                    sleep(pause).await;
                }
                None => return result.map_err(|stopped| tries.into_error(stopped)),
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
        let begun = database.begin(self, attempt, policy).await.map_err(Stopped::Begin)?;
        let (mut tx, mut permit) = match begun {
            (tx, TransactionClaim::Execute(permit)) => (tx, permit),
            (tx, other) => return without_work(database, tx, other).await,
        };
        let fence = permit.fence();
        let worked = work(&mut Work { tx: &mut tx, permit: &mut permit }).await;
        let outcome = match worked {
            Ok(outcome) => outcome,
            Err(error) => {
                // Even if this fails, the transaction ends with its connection.
                let _ = database.end(tx, false).await;
                return Err(Stopped::Work(error));
            }
        };
        match outcome {
            Outcome::Completed(reply) => {
                let settlement = Settlement::Completed(reply);
                committed(database, tx, permit, settlement).await
            }
            Outcome::Failed(reply) => {
                database.end(tx, false).await.map_err(Stopped::Work)?;
                self.fail(database, attempt, policy, Settlement::Failed(reply)).await
            }
            Outcome::FailedForNow(_) | Outcome::Unknown(_) => {
                // In a transaction nothing is unknown: it did not commit.
                database.end(tx, false).await.map_err(Stopped::Work)?;
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
        match database.begin(self, attempt, policy).await.map_err(Stopped::Begin)? {
            (tx, TransactionClaim::Execute(permit)) => {
                committed(database, tx, permit, settlement).await
            }
            // A duplicate was faster: its outcome counts (I4).
            (tx, other) => without_work(database, tx, other).await,
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
    let expires = database.commit(tx, permit, &settlement).await.map_err(Stopped::Commit)?;
    Ok(Answer::Executed { settlement, expires, fence, stored: Stored::Durable })
}

/// Ends a transaction without work.
async fn without_work<D: Database>(
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
    // The claim may have failed an abandoned lease: that is the outcome, and must be durable before it is
    // returned (I6).
    let keep = matches!(answer, Answer::Replayed { settlement: Settlement::Abandoned, .. });
    match database.end(tx, keep).await {
        Err(error) if keep => Err(Stopped::Commit(error)),
        _ => Ok(answer),
    }
}

// === impl Stopped ===

impl Stopped {
    fn error(&self) -> &BoxError {
        match self {
            Self::Begin(error) | Self::Work(error) | Self::Commit(error) => error,
        }
    }

    fn failure(&self) -> Failure {
        match self {
            Self::Begin(error) | Self::Work(error) => Failure::of(error),
            Self::Commit(error) => Failure::of_commit(error),
        }
    }

    /// Drivers put the details into the cause.
    fn message(&self) -> String {
        let error = self.error();
        error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
    }
}

// === impl Tries ===

impl Tries {
    /// The pause before the next try; `None` if this one was the last.
    fn after(&mut self, result: &Result<Answer, Stopped>, retry: Retry) -> Option<Duration> {
        self.made += 1;
        let again = match result {
            // Perhaps in flight only by a lost transaction of our own.
            Ok(Answer::InFlight { .. }) => self.lost,
            Ok(_) => false,
            Err(stopped) => self.failed(stopped),
        };
        again.then(|| retry.pause_after(self.made)).flatten()
    }

    /// Records a failed try. Whether it may be repeated.
    fn failed(&mut self, stopped: &Stopped) -> bool {
        let failure = stopped.failure();
        self.lost |= failure == Failure::Lost;
        self.in_doubt = match stopped {
            // It found out nothing.
            Stopped::Begin(_) => self.in_doubt,
            // It got the permit: the earlier try had not committed.
            Stopped::Work(_) => false,
            Stopped::Commit(error) => Failure::may_have_committed(error),
        };
        failure != Failure::Final
    }

    fn into_error(self, stopped: Stopped) -> OnceError {
        match stopped {
            Stopped::Begin(error) | Stopped::Commit(error) if self.in_doubt => {
                OnceError::Lost(error)
            }
            Stopped::Begin(error) => OnceError::Unavailable(error),
            // The server reported that it did not commit, or the commit was not sent.
            Stopped::Work(error) | Stopped::Commit(error) => OnceError::Work(error),
        }
    }
}

// === impl OnceError ===

impl OnceError {
    /// The same as a failure of a store. `IdempotentRequest::refuse` of semel-http turns it into a response.
    pub fn into_store_error(self) -> StoreError {
        let what = self.to_string();
        match self {
            Self::Lost(error) => StoreError::TimedOut { what, source: Some(error) },
            Self::Work(error) | Self::Unavailable(error) => {
                StoreError::Unavailable { what, source: Some(error) }
            }
        }
    }
}

impl From<OnceError> for StoreError {
    fn from(error: OnceError) -> Self {
        error.into_store_error()
    }
}

// === impl Work ===

impl<T> Work<'_, T> {
    /// Adds an event that is written together with the outcome, if that is completed.
    pub fn stage(&mut self, event: Event) {
        self.permit.stage(event);
    }

    /// See [`Permit::fence`]: do not fence effects elsewhere with it.
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
