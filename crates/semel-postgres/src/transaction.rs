//! Same transaction: the claim, the rows of the work, its events and the settle commit together.
//!
//! In the same transaction, and there alone, Semel promises an **exactly-once effect**. It covers
//! everything in the same database: the record that marks it done and the rows that the work wrote are one
//! commit. After a crash or a lost connection, at any time, either all of it is there or nothing. Effects
//! elsewhere (an e-mail, a call of another service) are outside the transaction and outside this promise:
//! stage an [`Event`] for them instead.
//!
//! No lease is needed. While the work runs, an advisory lock, which ends with the transaction, makes
//! duplicates return "in flight" at once; or they wait for it, if the policy says so. The fingerprint of
//! work in flight is not visible to others, so another request with the same key is in flight, too, until
//! the first has committed; from then on it is a mismatch.
//!
//! # Three ways to use it
//!
//! - [`TransactionPool::once`]: connections of its own, retries, and the fewest round trips.
//! - [`SameTransaction::claim`], with a `tokio_postgres::Transaction` that you already have.
//! - With sqlx (feature `sqlx`): `SameTransaction::claim` with a `sqlx::Transaction` of yours,
//!   or [`SameTransaction::once`] with its pool.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! use semel_core::{Attempt, Fingerprint, Key, Outcome, Owner, Policy, RecordId, Reply, Scope};
//! use semel_postgres::Options;
//! use semel_postgres::transaction::{Event, TransactionPool};
//!
//! let pool = TransactionPool::open(Options::from_url("postgres://bank@localhost/bank")?).await?;
//!
//! let scope = Scope::new([("who", "customer-7"), ("what", "POST /transfers")]);
//! let id = RecordId::new("bank", &scope, &Key::parse("order-12345")?);
//! let fingerprint = Fingerprint::new([("body", r#"{"amount":100}"#)]);
//!
//! let answer = pool
//!     .once(id, fingerprint, &Policy::default(), |work| {
//!         Box::pin(async move {
//!             work.execute("UPDATE account SET balance = balance - $1", &[&100_i64]).await?;
//!             work.stage(Event::new("transfers", "100 were moved"));
//!             Ok(Outcome::Completed(Reply::new("moved")))
//!         })
//!     })
//!     .await?;
//! # drop(answer);
//! # Ok(())
//! # }
//! ```

mod connection;
mod event;
mod fast_path;
mod once;
mod permit;
mod pool;
mod retry;
mod session;
#[cfg(feature = "sqlx")]
mod with_sqlx;
mod with_tokio_postgres;

use std::sync::Arc;

use semel_core::{Attempt, InFlight, Policy, RecordId, Settlement, Timestamp};

use crate::UrlError;
use crate::row::{Damage, on_abandoned};
use crate::schema_name::SchemaName;
use crate::url::schema_name;

pub use connection::Tx;
pub use event::Event;
pub use once::{BoxError, Database, OnceError, Work, WorkFuture};
pub use permit::Permit;
pub use pool::{Isolation, TransactionPool};
pub use retry::Retry;
pub use session::{ClaimReply, ClaimRequest, Session, SettleRequest};

/// Claims and settles in the caller's transaction.
#[derive(Clone, Debug)]
pub struct SameTransaction {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    claim: String,
    settle: String,
    /// Keeps the locks of two schemas in one database apart.
    salt: i64,
    retry: Retry,
}

/// The answer to a claim in a transaction.
#[derive(Debug)]
pub enum TransactionClaim {
    /// Do the work in this transaction, settle the permit, and commit.
    Execute(Permit),
    /// The outcome is recorded: replay it.
    Replay {
        /// The recorded outcome.
        settlement: Settlement,
        /// Until when it can be replayed.
        expires: Timestamp,
    },
    /// Another transaction executes it.
    InFlight {
        /// The server's clock.
        now: Timestamp,
    },
    /// The key was used for another request.
    Mismatch,
    /// The work may or may not have happened, outside of this mode, and the policy is to hold.
    Unknown,
}

/// Why a claim or a settle failed. The transaction must be rolled back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError<E> {
    /// The driver or the server failed.
    // Not transparent: that would hide it from code that walks the causes, as a retry does.
    #[error("{0}")]
    Driver(#[source] E),
    /// The record cannot be read.
    #[error("the record {record} cannot be read: {what}")]
    Corrupt {
        /// The start of the record's id.
        record: String,
        /// What is wrong.
        what: String,
    },
}

// === impl SameTransaction ===

impl SameTransaction {
    /// The mode in the default schema, `semel`.
    pub fn new() -> Self {
        Self::with_schema(&SchemaName::default())
    }

    /// The same in a schema of another name.
    pub fn in_schema(name: &str) -> Result<Self, UrlError> {
        Ok(Self::with_schema(&schema_name(name.to_owned())?))
    }

    pub(crate) fn with_schema(schema: &SchemaName) -> Self {
        let claim = format!(
            "SELECT verdict, fence, replaces, now_ms, expires, state, result, reply, began \
             FROM {schema}.claim_in_transaction($1, $2, $3, $4, $5)"
        );
        let settle = format!(
            "SELECT expires FROM {schema}.settle_in_transaction\
             ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)"
        );
        let salt = schema.salt();
        Self { shared: Arc::new(Shared { claim, settle, salt, retry: Retry::default() }) }
    }

    /// The same with another retry rule.
    #[must_use]
    pub fn retry(self, retry: Retry) -> Self {
        let Shared { claim, settle, salt, .. } = &*self.shared;
        let (claim, settle, salt) = (claim.clone(), settle.clone(), *salt);
        Self { shared: Arc::new(Shared { claim, settle, salt, retry }) }
    }

    pub(crate) fn retries(&self) -> Retry {
        self.shared.retry
    }

    /// Claims the right to work in this transaction.
    ///
    /// Claim before anything else is done in the transaction, and once per key. With
    /// [`Execute`](TransactionClaim::Execute) do the work, [settle](Permit::settle) and commit. With
    /// every other answer roll back, except that [`Replay`](TransactionClaim::Replay) may have to be
    /// committed: where the policy is to fail abandoned work, that is written now.
    ///
    /// In REPEATABLE READ and SERIALIZABLE a transaction does not see what was committed after it
    /// began. If that is the outcome of this record, the claim is a serialization failure (SQLSTATE
    /// 40001), before any work was done: begin again.
    pub async fn claim<S: Session>(
        &self,
        session: &mut S,
        attempt: &Attempt,
        policy: &Policy,
    ) -> Result<TransactionClaim, SessionError<S::Error>> {
        let request = self.claim_request(attempt, policy);
        let found =
            session.claim(&self.shared.claim, &request).await.map_err(SessionError::Driver)?;
        self.answer(found, attempt, policy).map_err(|damage| corrupt(attempt.id(), &damage))
    }

    pub(crate) fn claim_sql(&self) -> &str {
        &self.shared.claim
    }

    pub(crate) fn settle_sql(&self) -> &str {
        &self.shared.settle
    }

    /// The parameters of a claim.
    pub(crate) fn claim_request(&self, attempt: &Attempt, policy: &Policy) -> ClaimRequest {
        let id = attempt.id();
        let start = id.as_bytes().iter().take(8);
        let start = start.fold(0, |bits, byte| bits << 8 | i64::from(*byte));
        let wait_ms = match policy.in_flight() {
            InFlight::Wait(limit) => crate::row::millis(limit).clamp(1, WAIT_MAX_MS),
            InFlight::Conflict | InFlight::Accepted => 0,
        };
        ClaimRequest {
            id,
            fingerprint: attempt.fingerprint(),
            lock: start ^ self.shared.salt,
            wait_ms,
            on_abandoned: on_abandoned(policy.on_abandoned()),
        }
    }

    /// Interprets the server's reply.
    pub(crate) fn answer(
        &self,
        found: ClaimReply,
        attempt: &Attempt,
        policy: &Policy,
    ) -> Result<TransactionClaim, Damage> {
        Ok(match found.verdict {
            0 => TransactionClaim::Execute(Permit::new(self, attempt, policy.ttl(), &found)?),
            1 => {
                let expires = found.expires()?;
                TransactionClaim::Replay { settlement: found.settlement()?, expires }
            }
            2 => TransactionClaim::InFlight { now: found.now()? },
            3 => TransactionClaim::Mismatch,
            4 => TransactionClaim::Unknown,
            _ => return Err(Damage::Nonsense("an unknown verdict")),
        })
    }
}

/// The longest wait that the server accepts, some 24 days.
const WAIT_MAX_MS: i64 = i32::MAX as i64;

pub(crate) fn corrupt<E>(id: RecordId, damage: &Damage) -> SessionError<E> {
    SessionError::Corrupt { record: id.prefix(), what: damage.to_string() }
}

impl Default for SameTransaction {
    fn default() -> Self {
        Self::new()
    }
}
