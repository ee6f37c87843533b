use crate::{Fence, Fingerprint, Lease, Owner, RecordId, Settlement, Timestamp};

/// What a store keeps about one key in one scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What every further attempt must be equal in.
    pub fingerprint: Fingerprint,
    /// When the first attempt was granted its lease.
    pub created: Timestamp,
    /// From when on the record no longer counts, whether or not it was swept. Never before the
    /// retention of the latest granted claim is over, nor before the end of a live lease.
    pub expires: Timestamp,
    /// The fence of the latest lease.
    pub fence: Fence,
    /// The owner of the latest lease.
    pub owner: Owner,
    /// Where the record stands.
    pub state: State,
}

/// Where a record stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// A holder has the right to execute until this moment; past it, the record is *abandoned*: the
    /// work may or may not have happened.
    Leased {
        /// When the lease runs out.
        until: Timestamp,
    },
    /// The holder gave up without knowing whether the work happened, and the policy is to hold.
    Held,
    /// The holder handed the lease back: the work did not happen and may be tried again.
    Released,
    /// The outcome is known and final.
    Settled(Settlement),
}

// === impl Record ===

impl Record {
    /// Is the record past its time? Then it is as if it were not there (trap 16).
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires <= now
    }

    /// Whether there is a live lease.
    pub fn is_leased(&self, now: Timestamp) -> bool {
        matches!(self.state, State::Leased { until } if now < until)
    }

    /// Whether a lease ran out without a settlement.
    pub fn is_abandoned(&self, now: Timestamp) -> bool {
        matches!(self.state, State::Leased { until } if until <= now)
    }

    /// How many attempts were granted a lease.
    pub fn attempts(&self) -> u64 {
        self.fence.get()
    }

    /// Whether `lease` has this record's current fence and owner.
    pub fn is_current(&self, lease: &Lease) -> bool {
        self.fence == lease.fence() && self.owner == lease.owner()
    }

    /// The lease that this record, just written, grants to its owner.
    pub(crate) fn grant(&self, id: RecordId, until: Timestamp) -> Lease {
        Lease::new(id, self.fingerprint, self.fence, self.owner, until, self.expires)
    }
}
