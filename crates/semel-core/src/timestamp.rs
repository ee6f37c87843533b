use std::fmt;
use std::time::Duration;

/// A moment on the store's clock, in milliseconds since the Unix epoch.
///
/// Only the store reads a clock; all other code receives a `Timestamp`. Arithmetic saturates: a
/// moment that cannot be expressed is the end of time, never a wrap-around into the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

// === impl Timestamp ===

impl Timestamp {
    /// The Unix epoch.
    pub const ZERO: Self = Self(0);

    /// The moment `millis` milliseconds after the Unix epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// This moment moved forward by `duration`, in whole milliseconds, rounded up.
    ///
    /// Rounding up keeps a lease at least as long as it was promised to be.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let millis = u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(millis))
    }

    /// How long from this moment until `later`; zero if `later` has passed.
    pub fn until(self, later: Self) -> Duration {
        Duration::from_millis(later.0.saturating_sub(self.0))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_rounds_up_and_saturates() {
        let start = Timestamp::from_millis(10);
        assert_eq!(start.plus(Duration::from_nanos(1)).as_millis(), 11);
        assert_eq!(start.plus(Duration::from_millis(5)).as_millis(), 15);
        assert_eq!(start.plus(Duration::MAX).as_millis(), u64::MAX);
    }

    #[test]
    fn time_left_is_never_negative() {
        let (early, late) = (Timestamp::from_millis(1), Timestamp::from_millis(9));
        assert_eq!(early.until(late), Duration::from_millis(8));
        assert_eq!(late.until(early), Duration::ZERO);
    }
}
