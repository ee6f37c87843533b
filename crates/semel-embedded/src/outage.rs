//! Leases across a time in which the store could not write.
//!
//! Holders could not renew during such a time, so a lease that ran out in it says nothing about its
//! holder. One process owns the directory: those holders live in this process or are gone, and a
//! successor could only be this process too. So a lease that was live when writing failed counts as
//! live until its holder has had time to come back ([`tuning::OUTAGE_GRACE`]). This is kept in
//! memory alone: a restart ends the holders, and their leases lapse as written.

use std::sync::atomic::{AtomicU64, Ordering};

use semel_core::{Record, State, Timestamp};

use crate::tuning;

/// The latest time in which the store could not write.
///
/// Changed under the lock of the commit queue, and read there by every decision that writes. Readers without
/// the lock may see a change half made; what they answer without a write was true a moment ago.
#[derive(Debug)]
pub(crate) struct Outage {
    /// Leases that were live at this moment (in milliseconds) are extended; [`NEVER`] if none are.
    from: AtomicU64,
    /// Until when; [`NEVER`] while the outage lasts.
    to: AtomicU64,
}

const NEVER: u64 = u64::MAX;

// === impl Outage ===

impl Default for Outage {
    fn default() -> Self {
        Self { from: AtomicU64::new(NEVER), to: AtomicU64::new(0) }
    }
}

impl Outage {
    /// A batch was refused whose first operation was decided at `began`. Writing stops until
    /// [`Self::end`] if the outage `lasts`, and else goes on with the next batch.
    pub(crate) fn begin(&self, began: Timestamp, now: Timestamp, lasts: bool) {
        let began = began.as_millis();
        // An outage soon after another continues it: holders had no time to renew in between.
        if self.from.load(Ordering::Relaxed) == NEVER || self.to.load(Ordering::Relaxed) < began {
            self.from.store(began, Ordering::Relaxed);
        }
        let to = if lasts { NEVER } else { now.plus(tuning::OUTAGE_GRACE).as_millis() };
        self.to.fetch_max(to, Ordering::Relaxed);
    }

    /// The store writes again.
    pub(crate) fn end(&self, now: Timestamp) {
        self.to.store(now.plus(tuning::OUTAGE_GRACE).as_millis(), Ordering::Relaxed);
    }

    /// Whether an outage is under way, or so recent that leases are extended.
    pub(crate) fn extends_leases(&self, now: Timestamp) -> bool {
        self.from.load(Ordering::Relaxed) != NEVER
            && now.as_millis() < self.to.load(Ordering::Relaxed)
    }

    /// Extends the lease of `record`, if it was live when the outage began.
    pub(crate) fn extend(&self, record: &mut Record, now: Timestamp) {
        let State::Leased { until } = &mut record.state else { return };
        if until.as_millis() <= self.from.load(Ordering::Relaxed) {
            return;
        }
        let to = match self.to.load(Ordering::Relaxed) {
            NEVER => now.plus(tuning::OUTAGE_GRACE),
            to => Timestamp::from_millis(to),
        };
        *until = to.max(*until);
        // A record must outlive its lease (I1).
        record.expires = record.expires.max(*until);
    }
}

#[cfg(test)]
mod tests {
    use semel_core::{Fence, Fingerprint, Owner};

    use super::*;

    const fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn leased(until: Timestamp) -> Record {
        Record {
            fingerprint: Fingerprint::from_bytes([1; 32]),
            created: at(0),
            expires: at(50),
            fence: Fence::FIRST,
            owner: Owner::from_u128(1),
            state: State::Leased { until },
        }
    }

    /// Until when (in seconds) a lease until `until` counts.
    fn extended(outage: &Outage, until: u64, now: u64) -> u64 {
        let mut record = leased(at(until));
        outage.extend(&mut record, at(now));
        let State::Leased { until } = record.state else { panic!("{record:?}") };
        assert!(record.expires >= until, "a lease outlives its record");
        until.as_millis() / 1_000
    }

    #[test]
    fn without_an_outage_leases_end_as_written() {
        let outage = Outage::default();
        assert_eq!(extended(&outage, 30, 100), 30);
        assert!(!outage.extends_leases(at(100)));
    }

    #[test]
    fn leases_that_lived_when_writing_failed_live_until_their_holders_are_back() {
        let outage = Outage::default();
        outage.begin(at(20), at(21), true);
        assert!(extended(&outage, 30, 100) > 100, "while it lasts");
        assert!(outage.extends_leases(at(1_000)));
        outage.end(at(100));
        let grace = tuning::OUTAGE_GRACE.as_secs();
        assert_eq!(extended(&outage, 30, 100), 100 + grace);
        assert_eq!(extended(&outage, 20, 100), 20, "it had lapsed before");
        assert_eq!(extended(&outage, 500, 100), 500, "it is long enough by itself");
        assert!(!outage.extends_leases(at(100 + grace)));
    }

    #[test]
    fn an_outage_soon_after_another_continues_it() {
        let outage = Outage::default();
        outage.begin(at(20), at(20), true);
        outage.end(at(60));
        outage.begin(at(62), at(62), true);
        outage.end(at(90));
        assert!(extended(&outage, 30, 90) > 90, "its holder had two seconds to renew");
        outage.begin(at(200), at(200), true);
        outage.end(at(300));
        assert_eq!(extended(&outage, 30, 300), 30, "its holder had a minute to renew");
    }

    #[test]
    fn refused_batches_in_a_row_are_one_outage() {
        let outage = Outage::default();
        for second in [20, 25, 30, 35] {
            outage.begin(at(second), at(second + 5), false);
        }
        assert!(extended(&outage, 22, 40) > 40);
        assert_eq!(extended(&outage, 22, 40), 40 + tuning::OUTAGE_GRACE.as_secs());
    }
}
