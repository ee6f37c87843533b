//! The one module that reads the machine's time.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use semel_core::Timestamp;

/// The time of a store.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The present moment.
    fn now(&self) -> Timestamp;

    /// How many times the clock has gone back by more than an error of reading. A steady clock never
    /// does; one that follows a server's must count this before it shows the earlier time.
    fn set_backs(&self) -> u64 {
        0
    }
}

/// The machine's time when the clock was made, carried on by its monotonic clock.
///
/// Setting the machine's clock forward or back while the process runs therefore neither ends a live
/// lease early (trap 18) nor makes one last for hours.
#[derive(Debug)]
pub struct SteadyClock {
    started: Timestamp,
    since: Instant,
}

/// The machine's time at every reading, for what is stamped by other machines, such as tokens. It may
/// go back, so it is no clock for a store.
#[derive(Clone, Copy, Debug, Default)]
pub struct MachineClock;

/// A clock that moves only when it is advanced, for tests.
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<AtomicU64>);

// === impl SteadyClock ===

impl SteadyClock {
    /// A clock that starts at the machine's present time.
    #[expect(clippy::disallowed_methods, reason = "this is the module that may read the time")]
    pub fn start() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self { started: Timestamp::ZERO.plus(since_epoch), since: Instant::now() }
    }
}

impl Clock for SteadyClock {
    fn now(&self) -> Timestamp {
        // Rounding an elapsed time up could put two readings in the wrong order only if `plus`
        // were not monotonic, and it is.
        self.started.plus(self.since.elapsed())
    }
}

// === impl MachineClock ===

impl Clock for MachineClock {
    #[expect(clippy::disallowed_methods, reason = "this is the module that may read the time")]
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Timestamp::ZERO.plus(since_epoch)
    }
}

// === impl ManualClock ===

impl ManualClock {
    /// A clock that shows `start`.
    pub fn at(start: Timestamp) -> Self {
        Self(Arc::new(AtomicU64::new(start.as_millis())))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        // In one step: of two threads that read, then write, one would set the clock back.
        let later = |millis| Timestamp::from_millis(millis).plus(by).as_millis();
        self.0.update(Ordering::SeqCst, Ordering::SeqCst, later);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Timestamp {
        (**self).now()
    }

    fn set_backs(&self) -> u64 {
        (**self).set_backs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_when_advanced() {
        let clock = ManualClock::at(Timestamp::from_millis(5));
        let other = clock.clone();
        assert_eq!(clock.now().as_millis(), 5);
        other.advance(Duration::from_millis(7));
        assert_eq!(clock.now().as_millis(), 12);
    }

    #[test]
    fn a_steady_clock_starts_at_the_present_and_never_goes_back() {
        let clock = SteadyClock::start();
        let readings: Vec<_> = (0..1_000).map(|_| clock.now()).collect();
        assert!(readings.is_sorted());
        // The year 2020: a clock that started at zero would fail here.
        assert!(readings[0] > Timestamp::from_millis(1_577_836_800_000));
    }
}
