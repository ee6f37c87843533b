//! `Retry-After` of a duplicate while another attempt is in flight.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use semel_core::Timestamp;

/// The usual latency of a route's executions: an exponentially weighted mean.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    /// Microseconds; 0 if nothing is known yet.
    mean: AtomicU64,
}

/// The lease of the attempt in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlightLease {
    /// When its lease ends, on the store's clock, unless it is renewed.
    pub(crate) until: Timestamp,
    /// The store's clock, if it is known here.
    pub(crate) now: Option<Timestamp>,
    /// How long a lease lasts, by the policy of the attempt that asks.
    pub(crate) lease: Duration,
    /// How long executions usually take.
    pub(crate) usual: Duration,
    /// It is executed by this process: it is running, even if the store is away and the lease has expired.
    pub(crate) is_own: bool,
}

/// The state of a lease's holder, by the time that is left of the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// It renews its lease in time.
    Renewing,
    /// It has missed a renewal: its process is dead, paused, or cut off from the store.
    Overdue,
}

/// One execution counts for an eighth of the mean.
const WEIGHT: u64 = 8;

// === impl Latency ===

impl Latency {
    /// Notes how long an execution took.
    pub(crate) fn note(&self, took: Duration) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX).max(1);
        let mean = self.mean.load(Ordering::Relaxed);
        let next = match mean {
            0 => took,
            mean => mean - mean / WEIGHT + took / WEIGHT,
        };
        // Two that end at once may overwrite each other: it is an estimate.
        self.mean.store(next.max(1), Ordering::Relaxed);
    }

    pub(crate) fn usual(&self) -> Duration {
        Duration::from_micros(self.mean.load(Ordering::Relaxed))
    }
}

// === impl InFlightLease ===

impl InFlightLease {
    /// The state of the holder, and the seconds for `Retry-After`: never 0, and never much past the
    /// end of the lease.
    pub(crate) fn retry_after(&self) -> (Holder, u32) {
        let Some(left) = self.left() else {
            return (Holder::Renewing, whole_seconds(self.usual).min(whole_seconds(self.lease)));
        };
        if left < self.shortest_if_renewed() && !self.is_own {
            return (Holder::Overdue, past(left));
        }
        // An execution that has taken longer than usual is expected to take as long again. So a client
        // that honours the header retries a few times only, also if the holder has just died.
        let elapsed = self.lease.saturating_sub(left);
        let more = self.usual.checked_sub(elapsed).filter(|more| !more.is_zero());
        (Holder::Renewing, whole_seconds(more.unwrap_or(elapsed)).min(past(left)))
    }

    /// What is left of the lease. `None` if that is unknown, or if the lease seems to be over: an
    /// execution of this process may outlive its lease while the store is away.
    fn left(&self) -> Option<Duration> {
        let left = self.until.as_millis().checked_sub(self.now?.as_millis())?;
        (left > 0).then(|| Duration::from_millis(left))
    }

    /// A lease is renewed when a third of it is over, and a renewal may take a moment: two thirds, less a
    /// twelfth.
    fn shortest_if_renewed(&self) -> Duration {
        self.lease / 12 * 7
    }
}

/// Seconds, rounded up, and at least one.
pub(crate) fn whole_seconds(duration: Duration) -> u32 {
    let up = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    u32::try_from(up.max(1)).unwrap_or(u32::MAX)
}

/// Seconds after which it is surely over.
fn past(duration: Duration) -> u32 {
    u32::try_from(duration.as_secs().saturating_add(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(30);
    const NOW: u64 = 1_767_225_600_000;

    /// With so many milliseconds left.
    fn lease(left_ms: i64, usual: Duration) -> InFlightLease {
        let until = Timestamp::from_millis(NOW.saturating_add_signed(left_ms));
        let now = Some(Timestamp::from_millis(NOW));
        InFlightLease { until, now, lease: LEASE, usual, is_own: false }
    }

    fn asked(left_ms: i64, usual_ms: u64) -> (Holder, u32) {
        lease(left_ms, Duration::from_millis(usual_ms)).retry_after()
    }

    #[test]
    fn a_renewing_holder_gets_the_usual_latency() {
        assert_eq!(asked(30_000, 0), (Holder::Renewing, 1));
        assert_eq!(asked(30_000, 40), (Holder::Renewing, 1));
        assert_eq!(asked(30_000, 4_200), (Holder::Renewing, 5));
        // Three of the usual five seconds are over.
        assert_eq!(asked(27_000, 5_000), (Holder::Renewing, 2));
    }

    #[test]
    fn slow_work_gets_its_elapsed_time_again() {
        assert_eq!(asked(28_000, 100), (Holder::Renewing, 2));
        assert_eq!(asked(22_000, 100), (Holder::Renewing, 8));
        assert_eq!(asked(26_000, 4_000), (Holder::Renewing, 4));
    }

    #[test]
    fn an_overdue_holder_gets_the_end_of_its_lease() {
        assert_eq!(asked(17_500, 40), (Holder::Renewing, 13));
        assert_eq!(asked(17_499, 40), (Holder::Overdue, 18));
        assert_eq!(asked(17_000, 40), (Holder::Overdue, 18));
        assert_eq!(asked(3_001, 60_000), (Holder::Overdue, 4));
        assert_eq!(asked(1, 40), (Holder::Overdue, 1));
    }

    #[test]
    fn own_work_counts_as_renewing_at_any_remaining_lease() {
        let own = |left_ms, usual_ms| {
            let lease = lease(left_ms, Duration::from_millis(usual_ms));
            InFlightLease { is_own: true, ..lease }.retry_after()
        };
        assert_eq!(own(3_000, 40), (Holder::Renewing, 4), "the lease ends by then, or is renewed");
        assert_eq!(own(17_000, 14_000), (Holder::Renewing, 1));
    }

    /// An execution of this process joins its own work while the store is away, and its lease may be
    /// over by then.
    #[test]
    fn an_expired_lease_falls_back_to_the_usual_latency() {
        for left in [0, -1, -60_000] {
            assert_eq!(asked(left, 0), (Holder::Renewing, 1), "{left}");
            assert_eq!(asked(left, 2_500), (Holder::Renewing, 3), "{left}");
        }
    }

    #[test]
    fn without_the_clock_of_the_store_there_is_only_the_usual_time() {
        let unclocked = |usual| InFlightLease { now: None, ..lease(3_000, usual) }.retry_after();
        assert_eq!(unclocked(Duration::ZERO), (Holder::Renewing, 1));
        assert_eq!(unclocked(Duration::from_millis(2_100)), (Holder::Renewing, 3));
        assert_eq!(
            unclocked(Duration::from_hours(1)),
            (Holder::Renewing, 30),
            "bounded by the lease"
        );
    }

    /// Before the first answer of its server, a clock shows the largest time.
    #[test]
    fn extreme_times_do_not_overflow() {
        let ends = [0, 1, NOW, u64::MAX].map(Timestamp::from_millis);
        for until in ends {
            for now in ends {
                for time in
                    [Duration::ZERO, Duration::from_millis(10), Duration::from_secs(u64::MAX / 4)]
                {
                    let (now, is_own) = (Some(now), false);
                    let lease = InFlightLease { until, now, lease: time, usual: time, is_own };
                    assert!(lease.retry_after().1 >= 1);
                }
            }
        }
    }

    /// A client that honours `Retry-After`, after a crash at the start of the work.
    #[test]
    fn a_client_that_honours_retry_after_retries_a_few_times() {
        for (crash, usual) in [(0, 40), (0, 3_000), (9_000, 40)] {
            let (mut left, mut tries) = (30_000 - crash, 0);
            while left > 0 {
                tries += 1;
                left -= i64::from(asked(left, usual).1) * 1_000;
            }
            assert!(tries <= 6, "{tries} tries");
            assert!(left > -2_000, "Retry-After is {left} ms too late");
        }
    }

    #[test]
    fn recent_executions_weigh_most() {
        let latency = Latency::default();
        assert_eq!(latency.usual(), Duration::ZERO);
        latency.note(Duration::from_secs(1));
        assert_eq!(latency.usual(), Duration::from_secs(1));
        for _ in 0..50 {
            latency.note(Duration::from_secs(3));
        }
        let usual = latency.usual().as_secs_f64();
        assert!((2.9..=3.0).contains(&usual), "{usual}");
        latency.note(Duration::ZERO);
        assert!(latency.usual() < Duration::from_secs(3));
        latency.note(Duration::MAX);
        latency.note(Duration::MAX);
    }
}
