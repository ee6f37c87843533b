use std::time::Duration;

use semel_core::{Fingerprint, Settlement, Timestamp};

/// One life of a record, from its first claim until it expires: what clients call a use of a key.
#[derive(Debug)]
pub(super) struct Life {
    pub(super) fingerprint: Fingerprint,
    pub(super) expires: Timestamp,
    pub(super) fence: u64,
    pub(super) owner: u128,
    pub(super) stage: Stage,
    /// When it was settled, in simulated time.
    pub(super) settled_at: Option<Duration>,
    /// When its lease was granted or last renewed, in simulated time.
    pub(super) extended: Duration,
    /// When the next life began.
    pub(super) replaced: Option<Duration>,
    /// Whether it was deleted after it had expired.
    pub(super) is_swept: bool,
    /// Whether its latest lease was granted to the second copy of a claim.
    pub(super) is_doubled: bool,
    /// The attempts that executed under one of its leases.
    pub(super) executions: Vec<usize>,
    /// How often its work took effect.
    pub(super) effects: u32,
}

/// The state of a record.
#[derive(Debug)]
pub(super) enum Stage {
    Leased { until: Timestamp },
    Released,
    Held,
    Settled(Settlement),
}

// === impl Life ===

impl Life {
    pub(super) fn is_live(&self, now: Timestamp) -> bool {
        !self.is_swept && now < self.expires
    }

    pub(super) fn is_held_by(&self, owner: u128, fence: u64) -> bool {
        self.owner == owner && self.fence == fence
    }

    pub(super) const fn settled(&self) -> Option<&Settlement> {
        match &self.stage {
            Stage::Settled(settlement) => Some(settlement),
            _ => None,
        }
    }

    /// Its outcome is recorded, perhaps not for the first time.
    pub(super) fn settle(&mut self, settlement: Settlement, at: Duration) {
        self.stage = Stage::Settled(settlement);
        self.settled_at.get_or_insert(at);
    }

    /// A lease is granted. Retention counts from the latest grant.
    pub(super) fn kept(&mut self, now: Timestamp, ttl: Duration) {
        self.expires = self.expires.max(now.plus(ttl));
    }

    /// A lease is granted or renewed.
    pub(super) fn extend(&mut self, until: Timestamp, at: Duration) {
        self.stage = Stage::Leased { until };
        // A record outlives its lease.
        self.expires = self.expires.max(until);
        self.extended = at;
    }
}
