use std::fmt;
use std::num::NonZero;
use std::time::Duration;

use tokio::time::Instant;

/// A token bucket: `count` permits at once, which are refilled one by one over the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    count: NonZero<u64>,
    per_ms: NonZero<u64>,
}

/// The use of a [`Rate`]: when its bucket is full again, which is later for each permit that was taken.
///
/// A byte may take less than a nanosecond to refill, so the time has parts of a nanosecond.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Used {
    full_at: Option<Instant>,
    /// Parts of a nanosecond that are added to that.
    parts: u32,
}

/// A time in parts of a nanosecond, of which a nanosecond has 2^32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Parts(u128);

/// The longest time of a rate, and of a deficit.
const LONGEST: Duration = Duration::from_hours(24 * 365 * 100);

// === impl Rate ===

impl Rate {
    /// `count` permits per second.
    pub const fn per_second(count: NonZero<u32>) -> Self {
        let count = NonZero::new(count.get() as u64).expect("above zero");
        Self { count, per_ms: NonZero::new(1_000).expect("above zero") }
    }

    /// `count` permits in this time, which is rounded to milliseconds; at least one, and at most a hundred years.
    pub fn new(count: NonZero<u32>, per: Duration) -> Self {
        Self::of(count.into(), per)
    }

    /// The same with a larger count, such as bytes.
    pub fn of(count: NonZero<u64>, per: Duration) -> Self {
        let millis = u64::try_from(per.min(LONGEST).as_millis()).unwrap_or(u64::MAX);
        Self { count, per_ms: NonZero::new(millis).unwrap_or(NonZero::<u64>::MIN) }
    }

    const fn per(self) -> Duration {
        Duration::from_millis(self.per_ms.get())
    }

    /// How long it takes to refill `amount`. Rounded down by less than a part of a nanosecond, so that a rate never
    /// gives fewer permits than it says. Both factors have at most 64 bits, so no step has more than 128.
    fn time_of(self, amount: u64) -> Parts {
        let count = u128::from(self.count.get());
        let nanos = u128::from(amount) * self.per().as_nanos();
        let whole = (nanos / count).min(LONGEST.as_nanos());
        Parts((whole << 32) | (((nanos % count) << 32) / count))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.count;
        match self.per_ms.get() {
            1_000 => write!(f, "{count}/s"),
            60_000 => write!(f, "{count}/m"),
            3_600_000 => write!(f, "{count}/h"),
            _ => write!(f, "{count} in {:?}", self.per()),
        }
    }
}

// === impl Parts ===

impl Parts {
    const fn of(time: Duration) -> Self {
        Self(time.as_nanos() << 32)
    }

    const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Rounded up, so that the refill is complete after this time.
    fn duration(self) -> Duration {
        let nanos = (self.0 >> 32) + u128::from(self.0 & u128::from(u32::MAX) != 0);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

// === impl Used ===

impl Used {
    /// After how much time `amount` permits are available; zero if they are now.
    pub(super) fn until(self, amount: u64, rate: Rate, now: Instant) -> Duration {
        let full_at = self.ahead(now).plus(rate.time_of(amount));
        full_at.minus(Parts::of(rate.per())).duration()
    }

    /// Takes `amount` permits, even if fewer are available.
    pub(super) fn take(&mut self, amount: u64, rate: Rate, now: Instant) {
        self.set(self.ahead(now).plus(rate.time_of(amount)), now);
    }

    pub(super) fn give_back(&mut self, amount: u64, rate: Rate, now: Instant) {
        self.set(self.ahead(now).minus(rate.time_of(amount)), now);
    }

    /// Whether none was ever taken.
    pub(super) const fn is_unused(self) -> bool {
        self.full_at.is_none()
    }

    /// Whether the bucket is full.
    pub(super) fn is_full(self, now: Instant) -> bool {
        self.ahead(now) == Parts(0)
    }

    /// How long it takes until the bucket is full.
    fn ahead(self, now: Instant) -> Parts {
        match self.full_at.and_then(|at| at.checked_duration_since(now)) {
            Some(ahead) => Parts::of(ahead).plus(Parts(u128::from(self.parts))),
            None => Parts(0),
        }
    }

    fn set(&mut self, ahead: Parts, now: Instant) {
        let ahead = ahead.min(Parts::of(LONGEST));
        let nanos = u64::try_from(ahead.0 >> 32).unwrap_or(u64::MAX);
        self.full_at = Some(now + Duration::from_nanos(nanos));
        self.parts = u32::try_from(ahead.0 & u128::from(u32::MAX)).unwrap_or(u32::MAX);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn rate(count: u32, per: Duration) -> Rate {
        Rate::new(NonZero::new(count).expect("above zero"), per)
    }

    /// Takes all permits that are available, and counts them.
    fn drain(used: &mut Used, rate: Rate) -> u32 {
        let now = Instant::now();
        let takes_one = || {
            let is_there = used.until(1, rate, now).is_zero();
            if is_there {
                used.take(1, rate, now);
            }
            is_there
        };
        let takes = std::iter::repeat_with(takes_one).take_while(|is_there| *is_there).count();
        u32::try_from(takes).expect("an end")
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_burst_is_available_and_then_one_permit_at_a_time() {
        for (count, per) in [(1, 1), (3, 1), (100, 1), (100, 60), (7, 3_600)] {
            let rate = rate(count, Duration::from_secs(per));
            let mut used = Used::default();
            assert_eq!(drain(&mut used, rate), count);
            assert_eq!(drain(&mut used, rate), 0);
            // Tokio's time has whole milliseconds.
            advance(rate.time_of(1).duration() + Duration::from_millis(1)).await;
            assert_eq!(drain(&mut used, rate), 1, "{rate}");
            advance(rate.per() * 3).await;
            assert!(used.is_full(Instant::now()));
            assert_eq!(drain(&mut used, rate), count, "the bucket holds no more than that");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_until_the_next_permit_is_exact() {
        let rate = rate(4, Duration::from_secs(1));
        let mut used = Used::default();
        drain(&mut used, rate);
        let again_in = used.until(1, rate, Instant::now());
        assert_eq!(again_in, Duration::from_millis(250));
        advance(Duration::from_millis(249)).await;
        assert!(!used.until(1, rate, Instant::now()).is_zero());
        advance(Duration::from_millis(1)).await;
        assert!(used.until(1, rate, Instant::now()).is_zero());
    }

    #[tokio::test(start_paused = true)]
    async fn a_returned_permit_is_available_again() {
        let rate = rate(2, Duration::from_secs(1));
        let mut used = Used::default();
        drain(&mut used, rate);
        used.give_back(1, rate, Instant::now());
        assert_eq!(drain(&mut used, rate), 1);
    }

    /// A thousand tebibytes a day: twelve bytes a nanosecond.
    #[tokio::test(start_paused = true)]
    async fn bytes_that_cost_less_than_a_nanosecond_add_up() {
        let (day, tebibyte) = (Duration::from_hours(24), 1 << 40);
        let rate = Rate::of(NonZero::new(1_000 * tebibyte).expect("above zero"), day);
        let (mut one_by_one, mut at_once, now) = (Used::default(), Used::default(), Instant::now());
        for _ in 0..1_000_000 {
            one_by_one.take(1, rate, now);
        }
        at_once.take(1_000_000, rate, now);
        let left = one_by_one.until(1_000 * tebibyte, rate, now);
        assert!(!left.is_zero());
        assert_eq!(left, at_once.until(1_000 * tebibyte, rate, now));
    }

    /// A deficit is refilled by time, and the largest numbers saturate instead of wrapping around.
    #[tokio::test(start_paused = true)]
    async fn more_permits_may_be_taken_than_are_available() {
        let rate = rate(100, Duration::from_secs(10));
        let mut used = Used::default();
        used.take(250, rate, Instant::now());
        assert_eq!(used.until(0, rate, Instant::now()), Duration::from_secs(15));
        advance(Duration::from_secs(15)).await;
        assert_eq!(used.until(0, rate, Instant::now()), Duration::ZERO);
        assert_eq!(used.until(1, rate, Instant::now()), Duration::from_millis(100));
        for (count, per) in [(1, Duration::MAX), (u64::MAX, Duration::ZERO), (1, Duration::ZERO)] {
            let rate = Rate::of(NonZero::new(count).expect("above zero"), per);
            for _ in 0..3 {
                used.take(u64::MAX, rate, Instant::now());
                assert!(used.until(u64::MAX, rate, Instant::now()) <= LONGEST * 2);
            }
        }
    }

    #[test]
    fn rates_are_displayed_as_they_are_configured() {
        let shown = |count, per| rate(count, per).to_string();
        assert_eq!(shown(100, Duration::from_secs(1)), "100/s");
        assert_eq!(shown(5, Duration::from_mins(1)), "5/m");
        assert_eq!(shown(9, Duration::from_hours(1)), "9/h");
        assert_eq!(shown(2, Duration::from_millis(1_500)), "2 in 1.5s");
        assert_eq!(shown(2, Duration::ZERO), "2 in 1ms");
    }
}
