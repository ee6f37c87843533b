//! The holders of leases that an outage keeps from the store. No clock, no locks, no futures: time is an argument.

use std::time::Duration;

use semel_core::RecordId;
use tokio::time::Instant;

use crate::{IdHash, RecordMap};

/// The records whose holders could not renew, settle or release, and have to come first when the store is back: a
/// lease that has run out is theirs only until another node claims the record.
#[derive(Debug)]
pub(super) struct Holders {
    /// With the moment of the latest failure of each.
    failed: RecordMap<Instant>,
    /// Of any of them.
    latest: Option<Instant>,
    /// Until when claims stand back, after an outage.
    first_until: Option<Instant>,
    /// How many probes of theirs have failed since anything else was let through.
    in_vain: u32,
}

/// How many holders are remembered (I10); more than that are only not waited for.
const HOLDERS_MAX: usize = 100_000;
/// A holder tries again about every second, and a try takes up to the deadline of a verb. Without a failure for so
/// long, the remembered ones have given up or are gone.
const GONE_AFTER: Duration = Duration::from_secs(6);
/// How long claims stand back at most, once the store is back: as long as holders pause between two tries.
pub(super) const FIRST_FOR: Duration = Duration::from_secs(1);
/// After so many of their probes in a row a claim may be one. A record whose every write fails, and whose holder tries
/// for hours, must not keep all others waiting. Holders try about once a second, so that is for seconds; and in an
/// outage of the whole store few users have to be a probe, and holders are the first to find it back nearly always.
const IN_VAIN_MAX: u32 = 4;

// === impl Holders ===

impl Holders {
    pub(super) fn new() -> Self {
        let failed = RecordMap::with_hasher(IdHash::default());
        Self { failed, latest: None, first_until: None, in_vain: 0 }
    }

    /// A holder could not reach the store.
    pub(super) fn failed(&mut self, id: RecordId, now: Instant) {
        self.latest = Some(now);
        if self.failed.len() < HOLDERS_MAX {
            self.failed.insert(id, now);
        }
    }

    /// The store has answered a holder. Returns whether it was the last one that claims stand back for.
    pub(super) fn answered(&mut self, id: RecordId) -> bool {
        if self.failed.is_empty() {
            return false;
        }
        self.failed.remove(&id);
        self.failed.is_empty() && self.first_until.take().is_some()
    }

    /// Whether there are holders that will try again soon.
    pub(super) fn are_there(&mut self, now: Instant) -> bool {
        if self.latest.is_some_and(|latest| now.duration_since(latest) >= GONE_AFTER) {
            self.failed.clear();
            self.latest = None;
        }
        !self.failed.is_empty()
    }

    /// A holder was the probe, and the store did not answer it.
    pub(super) fn tried_in_vain(&mut self) {
        self.in_vain = self.in_vain.saturating_add(1);
    }

    /// Whether they were the probe so often that a claim has to be.
    pub(super) const fn try_in_vain(&self) -> bool {
        self.in_vain >= IN_VAIN_MAX
    }

    /// A claim was let through, or anything was answered.
    pub(super) fn made_way(&mut self) {
        self.in_vain = 0;
    }

    /// The store is back.
    pub(super) fn store_is_back(&mut self, now: Instant) {
        if self.are_there(now) {
            self.first_until = Some(now + FIRST_FOR);
        }
    }

    /// Until when a claim stands back, if it has to.
    pub(super) fn first_until(&mut self, now: Instant) -> Option<Instant> {
        self.first_until = self.first_until.filter(|until| now < *until);
        self.first_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: RecordId = RecordId::from_bytes([1; 32]);
    const OTHER: RecordId = RecordId::from_bytes([2; 32]);

    #[test]
    fn claims_stand_back_until_every_holder_has_been_answered() {
        let (mut holders, now) = (Holders::new(), Instant::now());
        holders.failed(ONE, now);
        holders.failed(OTHER, now);
        assert_eq!(holders.first_until(now), None, "not before the store is back");
        holders.store_is_back(now);
        assert!(holders.first_until(now).is_some());
        assert!(!holders.answered(ONE));
        assert!(holders.first_until(now).is_some());
        assert!(holders.answered(OTHER));
        assert_eq!(holders.first_until(now), None);
    }

    #[test]
    fn claims_do_not_stand_back_for_long() {
        let (mut holders, now) = (Holders::new(), Instant::now());
        holders.failed(ONE, now);
        holders.store_is_back(now);
        assert_eq!(holders.first_until(now + FIRST_FOR), None);
    }

    #[test]
    fn holders_that_gave_up_are_not_waited_for() {
        let (mut holders, now) = (Holders::new(), Instant::now());
        holders.failed(ONE, now);
        let later = now + GONE_AFTER;
        assert!(!holders.are_there(later));
        holders.store_is_back(later);
        assert_eq!(holders.first_until(later), None);
    }
}
