//! A piece of work from its claim to its commit.

use std::error::Error;
use std::ops::{Deref, DerefMut};
use std::pin::Pin;
use std::time::Duration;

use semel_core::{
    Attempt, Fence, Fingerprint, Outcome, Owner, Policy, RecordId, Settlement, Timestamp,
};
use semel_engine::{Answer, EngineError, Stored};
use semel_store::StoreError;
use tokio::time::sleep;

use super::retry::Failure;
use super::{Event, Permit, Retry, SameTransaction, TransactionClaim};

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
    /// The connection broke, or the answer made no sense, perhaps while committing, and nobody could
    /// be asked about it: the same attempt may come again, and is then told.
    #[error("the connection broke, and the work may or may not have been done: {0}")]
    Lost(#[source] BoxError),
}

/// What the tries so far have come to.
#[derive(Debug, Default)]
struct Tries {
    made: u32,
    /// A connection broke. Its transaction may still be there until the server notices.
    lost: bool,
    /// One broke while committing, and nothing was heard of that work since.
    in_doubt: bool,
}

/// A try that failed, and how far it had come: to its begin, to the work, to the commit.
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
    /// The work may be called again if the transaction failed by a conflict or a lost connection;
    /// whatever it did in the database before is then gone. How it ends decides what stays:
    ///
    /// - [`Completed`](Outcome::Completed): all of it, with the outcome.
    /// - [`Failed`](Outcome::Failed): the outcome alone. The rows of the work are rolled back, and
    ///   its events are not published.
    /// - [`FailedForNow`](Outcome::FailedForNow), [`Unknown`](Outcome::Unknown) or an error: nothing.
    ///
    /// It may be dropped at any moment: what was under way is rolled back, or was just committed, and
    /// the same attempt is told when it comes again. It has no time limit of its own, as the work has
    /// none; put one around it. A [`TransactionPool`](super::TransactionPool) gives each of its own
    /// steps the verb timeout of its options.
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
            // Each try is an attempt of its own: what came of the last is in the record.
            let attempt = Attempt::new(id, fingerprint, Owner::from_u128(rand::random()));
            let told = self.attempt(database, &attempt, policy, &mut work).await;
            match tries.after(&told, self.retries()) {
                Some(pause) => {
                    let error = told.err().map(|stopped| stopped.said());
                    tracing::debug!(record = %id.prefix(), tried = tries.made, error, "again");
                    sleep(pause).await;
                }
                None => return told.map_err(|stopped| tries.into_error(stopped)),
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
            (tx, other) => return told(database, tx, other).await,
        };
        let fence = permit.fence();
        let worked = work(&mut Work { tx: &mut tx, permit: &mut permit }).await;
        let outcome = match worked {
            Ok(outcome) => outcome,
            Err(error) => {
                // Whatever this says, the transaction ends with its connection.
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
    let expires = database.commit(tx, permit, &settlement).await.map_err(Stopped::Commit)?;
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

    /// Drivers leave it to the cause to say what happened.
    fn said(&self) -> String {
        let error = self.error();
        error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
    }
}

// === impl Tries ===

impl Tries {
    /// How long to wait before the next try; `None` if this one was the last.
    fn after(&mut self, told: &Result<Answer, Stopped>, retry: Retry) -> Option<Duration> {
        self.made += 1;
        let again = match told {
            // Perhaps by nobody else but a transaction that we have lost.
            Ok(Answer::InFlight { .. }) => self.lost,
            Ok(_) => false,
            Err(stopped) => self.failed(stopped),
        };
        again.then(|| retry.pause_after(self.made)).flatten()
    }

    /// Notes a failed try. May it be tried again?
    fn failed(&mut self, stopped: &Stopped) -> bool {
        let failure = stopped.failure();
        self.lost |= failure == Failure::Lost;
        self.in_doubt = match stopped {
            // It could not ask.
            Stopped::Begin(_) => self.in_doubt,
            // It was granted the permit: what broke before had not committed.
            Stopped::Work(_) => false,
            Stopped::Commit(error) => Failure::leaves_doubt(error),
        };
        failure != Failure::Final
    }

    fn into_error(self, stopped: Stopped) -> OnceError {
        match stopped {
            Stopped::Begin(error) | Stopped::Commit(error) if self.in_doubt => {
                OnceError::Lost(error)
            }
            Stopped::Begin(error) => OnceError::Unavailable(error),
            // At the commit the server said that it did not commit, or was not asked to.
            Stopped::Work(error) | Stopped::Commit(error) => OnceError::Work(error),
        }
    }
}

// === impl OnceError ===

/// What it means to whoever has to tell a client: `Keyed::refuse` of semel-http takes it.
impl From<OnceError> for EngineError {
    fn from(error: OnceError) -> Self {
        let what = error.to_string();
        Self::Store(match error {
            OnceError::Lost(error) => StoreError::TimedOut { what, source: Some(error) },
            OnceError::Work(error) | OnceError::Unavailable(error) => {
                StoreError::Unavailable { what, source: Some(error) }
            }
        })
    }
}

// === impl Work ===

impl<T> Work<'_, T> {
    /// Has an event written together with the outcome, if it is completed.
    pub fn stage(&mut self, event: Event) {
        self.permit.stage(event);
    }

    /// As [`Permit::fence`]: not a number to fence effects elsewhere with.
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
