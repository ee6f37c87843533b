//! What a driver's transaction must implement.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use semel_core::{Fence, Fingerprint, Owner, RecordId, Settlement, Timestamp};

use super::event::EventColumns;
use super::permit::moment;
use crate::row::{self, Damage};

/// A driver's transaction: two statements, which return one row each.
///
/// There is one for `tokio_postgres::Transaction` and, with the feature `sqlx`, one for
/// `sqlx::Transaction<'_, sqlx::Postgres>`. There is none for a mere connection: without a transaction
/// the lock would end with the claim, and two could work at the same time.
///
/// ```compile_fail
/// async fn claim(
///     same: semel_postgres::transaction::SameTransaction,
///     connection: &mut sqlx::PgConnection,
///     attempt: &semel_core::Attempt,
/// ) {
///     let _ = same.claim(connection, attempt, &semel_core::Policy::default()).await;
/// }
/// ```
pub trait Session: Send {
    /// The driver's error.
    type Error: Error + Send + Sync + 'static;

    /// Runs `sql` with `request` as its five parameters.
    fn claim(
        &mut self,
        sql: &str,
        request: &ClaimRequest,
    ) -> impl Future<Output = Result<ClaimReply, Self::Error>> + Send;

    /// Runs `sql` with `request` as its seventeen parameters, and returns the resulting number.
    fn settle(
        &mut self,
        sql: &str,
        request: &SettleRequest<'_>,
    ) -> impl Future<Output = Result<i64, Self::Error>> + Send;
}

/// The parameters of a claim.
#[derive(Debug)]
pub struct ClaimRequest {
    pub(crate) id: RecordId,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) lock: i64,
    pub(crate) wait_ms: i64,
    pub(crate) on_abandoned: i16,
}

/// The row that answers a claim.
#[derive(Debug)]
pub struct ClaimReply {
    pub(crate) verdict: i16,
    pub(crate) fence: i64,
    /// The version of an expired row that a settle would overwrite.
    pub(crate) replaces: Option<i64>,
    pub(crate) now_ms: i64,
    pub(crate) expires: Option<i64>,
    pub(crate) state: Option<i16>,
    pub(crate) result: Option<String>,
    pub(crate) reply: Option<Bytes>,
    /// The start of the transaction, which identifies it.
    pub(crate) began: i64,
}

/// The parameters of a settle.
#[derive(Debug)]
pub struct SettleRequest<'a> {
    pub(crate) id: RecordId,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) owner: Owner,
    pub(crate) fence: Fence,
    pub(crate) replaces: Option<i64>,
    pub(crate) began: i64,
    pub(crate) ttl: Duration,
    pub(crate) settlement: &'a Settlement,
    pub(crate) events: EventColumns,
}

// === impl Found ===

impl ClaimReply {
    pub(crate) fn fence(&self) -> Result<Fence, Damage> {
        row::fence_of(self.fence)
    }

    pub(crate) fn now(&self) -> Result<Timestamp, Damage> {
        moment(self.now_ms)
    }

    pub(crate) fn expires(&self) -> Result<Timestamp, Damage> {
        moment(self.expires.ok_or(Damage::Nonsense("an outcome that never expires"))?)
    }

    pub(crate) fn settlement(self) -> Result<Settlement, Damage> {
        let state = self.state.ok_or(Damage::Nonsense("an outcome without a state"))?;
        row::settlement_of(state, self.result.as_deref(), self.reply)
    }
}
