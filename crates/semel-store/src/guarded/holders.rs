//! The holders of leases whose writes failed in an outage. No clock, no locks, no futures: time is an argument.

use std::time::Duration;

use semel_core::RecordId;
use tokio::time::Instant;

use crate::{IdHash, RecordMap};

/// The records whose holders could not renew, settle or release, and go first after the outage: a holder
/// whose lease has run out can settle only until another node claims the record.
#[derive(Debug)]
pub(super) struct Holders {
    /// The latest failure of each.
    failed: RecordMap<Instant>,
    /// The latest failure of any.
    latest: Option<Instant>,
    /// Until when claims wait, after an outage.
    first_until: Option<Instant>,
    /// How many probes of holders have failed since another call was let through.
    failed_probes: u32,
}

/// How many holders are stored (I10); claims do not wait for more.
const HOLDERS_MAX: usize = 100_000;
/// A holder retries about once a second, and a try takes up to the deadline of a verb. Without a failure for this
/// long, the holders have given up or are gone.
const GONE_AFTER: Duration = Duration::from_secs(6);
/// How long claims wait at most after an outage: as long as holders pause between two tries.
pub(super) const FIRST_FOR: Duration = Duration::from_secs(1);
/// After this many failed probes of holders in a row a claim may be the probe. A record whose every write fails, and
/// whose holder retries for hours, must not block all others. Holders retry about once a second, so the delay is a few
/// seconds; and in an outage of the whole store few users are a probe, and a holder's probe nearly always succeeds first.
const FAILED_PROBES_MAX: u32 = 4;

// === impl Holders ===

impl Holders {
    pub(super) fn new() -> Self {
        let failed = RecordMap::with_hasher(IdHash::default());
        Self { failed, latest: None, first_until: None, failed_probes: 0 }
    }

    /// A holder could not reach the store.
    pub(super) fn failed(&mut self, id: RecordId, now: Instant) {
        self.latest = Some(now);
        if self.failed.len() < HOLDERS_MAX {
            self.failed.insert(id, now);
        }
    }

    /// The store has answered a holder. Returns whether it was the last one that claims wait for.
    pub(super) fn answered(&mut self, id: RecordId) -> bool {
        if self.failed.is_empty() {
            return false;
        }
        self.failed.remove(&id);
        self.failed.is_empty() && self.first_until.take().is_some()
    }

    /// Whether there are holders that will retry soon.
    pub(super) fn any_retrying(&mut self, now: Instant) -> bool {
        if self.latest.is_some_and(|latest| now.duration_since(latest) >= GONE_AFTER) {
            self.failed.clear();
            self.latest = None;
        }
        !self.failed.is_empty()
    }

    /// The probe of a holder failed.
    pub(super) fn probe_failed(&mut self) {
        self.failed_probes = self.failed_probes.saturating_add(1);
    }

    /// Whether so many probes of holders failed that a claim must be the probe.
    pub(super) const fn need_another_probe(&self) -> bool {
        self.failed_probes >= FAILED_PROBES_MAX
    }

    /// A claim was let through, or a call was answered.
    pub(super) fn reset_failed_probes(&mut self) {
        self.failed_probes = 0;
    }

    /// The store is back.
    pub(super) fn store_is_back(&mut self, now: Instant) {
        if self.any_retrying(now) {
            self.first_until = Some(now + FIRST_FOR);
        }
    }

    /// Until when a claim waits, if it must.
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
    fn claims_wait_until_every_holder_has_been_answered() {
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
    fn claims_wait_for_a_limited_time() {
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
        assert!(!holders.any_retrying(later));
        holders.store_is_back(later);
        assert_eq!(holders.first_until(later), None);
    }
}
