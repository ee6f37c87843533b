use std::time::Duration;

/// All chance of a run: the same seed gives the same numbers, on every machine and for ever.
///
/// A generator of our own (`SplitMix64`), because those of libraries may change their numbers from one
/// version to the next, and a seed that once failed must fail again.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

// === impl Random ===

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Another generator, whose numbers do not depend on later draws from this one.
    pub(crate) const fn fork(&mut self) -> Self {
        Self(self.next())
    }

    /// A number below `limit`, which is not zero.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        let (_, high) = self.next().carrying_mul(limit, 0);
        high
    }

    /// An index into something of `len` elements, which is not empty.
    pub(crate) fn index(&mut self, len: usize) -> usize {
        let limit = u64::try_from(len).unwrap_or(u64::MAX);
        usize::try_from(self.below(limit)).unwrap_or(0)
    }

    /// Whether it happens, with a probability of `per_mille` out of a thousand.
    pub(crate) fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1_000) < per_mille
    }

    pub(crate) fn pick<T: Copy, const N: usize>(&mut self, choices: [T; N]) -> T {
        choices[self.index(N)]
    }

    /// Whole milliseconds between the two, both included.
    pub(crate) fn between(&mut self, shortest: Duration, longest: Duration) -> Duration {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let span = millis(longest).saturating_sub(millis(shortest));
        shortest + Duration::from_millis(self.below(span.saturating_add(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_fixed_for_ever() {
        let mut random = Random::new(7);
        assert_eq!(random.next(), 7_191_089_600_892_374_487);
        assert!((0..1_000).all(|_| random.below(3) < 3));
        let (second, minute) = (Duration::from_secs(1), Duration::from_mins(1));
        assert!((0..1_000).all(|_| (second..=minute).contains(&random.between(second, minute))));
        assert_eq!(random.between(minute, second), minute);
    }
}
