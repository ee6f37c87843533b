//! Chance that repeats: everything that is drawn in a run comes from its seed.
//!
//! Not the generator of a library: a seed in the ledger must mean the same after an update.

/// A generator of numbers (`SplitMix64`).
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

// === impl Rng ===

impl Rng {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// An independent generator for one use, the same each time: draws from it do not affect others.
    #[must_use]
    pub fn of(seed: u64, use_for: &str, number: u64) -> Self {
        let mut state = seed ^ 0x5e6d_e1f0_0d5e_ed00;
        for byte in use_for.bytes() {
            state = mix(state ^ u64::from(byte));
        }
        Self { state: mix(state ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) }
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// At least `low`, and below `high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next_u64() % (high - low).max(1)
    }

    /// Below `count`.
    pub fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.between(0, count as u64)).unwrap_or(0)
    }

    /// In so many of a hundred cases.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.next_u64() % 100 < chance
    }

    /// One of them.
    pub fn pick<'a, T>(&mut self, choice: &'a [T]) -> &'a T {
        &choice[self.below(choice.len())]
    }

    /// A rank below `count`; low ones are drawn far more often (Zipf's law).
    pub fn rank(&mut self, count: usize) -> usize {
        // The inverse of the distribution function of 1/x, which is Zipf's but for its steps.
        #[expect(clippy::cast_precision_loss, reason = "53 bits are enough for a draw")]
        let (unit, last) = ((self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64, count as f64);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below count")]
        let rank = (last + 1.0).powf(unit) as usize;
        rank.clamp(1, count) - 1
    }
}

fn mix(state: u64) -> u64 {
    let one = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let two = (one ^ (one >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    two ^ (two >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_for_ever() {
        let mut rng = Rng::new(42);
        assert_eq!(
            [rng.next_u64(), rng.next_u64()],
            [13_679_457_532_755_275_413, 2_949_826_092_126_892_291]
        );
        assert_eq!(Rng::of(1, "a", 2).next_u64(), Rng::of(1, "a", 2).next_u64());
        assert_ne!(Rng::of(1, "a", 2).next_u64(), Rng::of(1, "a", 3).next_u64());
        assert_ne!(Rng::of(1, "a", 2).next_u64(), Rng::of(1, "b", 2).next_u64());
    }

    #[test]
    fn low_ranks_are_frequent_and_high_ones_occur() {
        let mut rng = Rng::new(7);
        let mut counts = [0_u32; 64];
        for _ in 0..20_000 {
            counts[rng.rank(64)] += 1;
        }
        assert!(counts[0] > 10 * counts[40], "{counts:?}");
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    }
}
