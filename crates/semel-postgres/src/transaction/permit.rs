use std::time::Duration;

use semel_core::{Attempt, Fence, Fingerprint, Owner, RecordId, Settlement, Timestamp};

use super::event::EventColumns;
use super::session::{ClaimReply, Session, SettleRequest};
use super::{Event, SameTransaction, SessionError, corrupt};
use crate::row::Damage;

/// The right to work, as long as the transaction lasts.
///
/// It can be settled only in the transaction that it was claimed in: settle it there and commit, or
/// roll back, and it is as if nothing had happened. If it was claimed in a savepoint that is rolled
/// back, its lock is gone: drop it.
#[derive(Debug)]
#[must_use = "settle it before you commit, or the work is not recorded and may be done again"]
pub struct Permit {
    same: SameTransaction,
    id: RecordId,
    fingerprint: Fingerprint,
    owner: Owner,
    fence: Fence,
    replaces: Option<i64>,
    began: i64,
    ttl: Duration,
    events: Vec<Event>,
}

// === impl Permit ===

impl Permit {
    pub(super) fn new(
        same: &SameTransaction,
        attempt: &Attempt,
        ttl: Duration,
        found: &ClaimReply,
    ) -> Result<Self, Damage> {
        Ok(Self {
            same: same.clone(),
            id: attempt.id(),
            fingerprint: attempt.fingerprint(),
            owner: attempt.owner(),
            fence: found.fence()?,
            replaces: found.replaces,
            began: found.began,
            ttl,
            events: Vec::new(),
        })
    }

    /// The fence of the record. It is higher than those of all leases and permits whose writes were
    /// committed.
    ///
    /// A permit that is rolled back leaves nothing, so the next may have the same number. That is
    /// enough here, where only one of them can commit; do not fence effects elsewhere with it.
    pub const fn fence(&self) -> Fence {
        self.fence
    }

    /// Adds an event that is written together with the outcome.
    pub fn stage(&mut self, event: Event) {
        self.events.push(event);
    }

    /// Records the outcome and the staged events; then commit. Returns the time until which the outcome
    /// is replayed.
    ///
    /// What is committed with it is the caller's choice, also with [`Settlement::Failed`]: the rows
    /// that the transaction has written so far stay, and so do the events. Where they must not, roll
    /// back, and settle the failure in a transaction of its own, as [`SameTransaction::once`] does.
    ///
    /// If the record has changed since the claim, this is a serialization failure (SQLSTATE 40001):
    /// its key was claimed twice, or the claim was in a savepoint that was rolled back.
    pub async fn settle<S: Session>(
        self,
        session: &mut S,
        settlement: &Settlement,
    ) -> Result<Timestamp, SessionError<S::Error>> {
        let id = self.id;
        let same = self.same.clone();
        let request = self.request(settlement);
        let expires = session.settle(same.settle_sql(), &request).await;
        let expires = expires.map_err(SessionError::Driver)?;
        moment(expires).map_err(|damage| corrupt(id, &damage))
    }

    /// The parameters of a settle.
    pub(super) fn request(self, settlement: &Settlement) -> SettleRequest<'_> {
        SettleRequest {
            id: self.id,
            fingerprint: self.fingerprint,
            owner: self.owner,
            fence: self.fence,
            replaces: self.replaces,
            began: self.began,
            ttl: self.ttl,
            settlement,
            events: EventColumns::new(self.id, self.owner, self.events),
        }
    }
}

pub(super) fn moment(millis: i64) -> Result<Timestamp, Damage> {
    let millis = u64::try_from(millis).map_err(|_| Damage::Nonsense("a moment before 1970"))?;
    Ok(Timestamp::from_millis(millis))
}
