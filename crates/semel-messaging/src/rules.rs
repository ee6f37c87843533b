use std::time::Duration;

use semel_core::Policy;

/// How often a message is tried, how long a redelivery waits, and how its record is kept.
#[derive(Clone, Debug)]
pub struct InboxRules {
    /// After so many attempts a message that still fails is dead. Crashes count as attempts. 10 by default.
    pub attempts_max: u64,
    /// The pause after the first failed attempt; each further one doubles it. 1 s by default.
    pub pause_min: Duration,
    /// The longest pause. 5 min by default.
    pub pause_max: Duration,
    /// The policy of the records. Its retention must be longer than the broker may take to deliver again; 7 days by
    /// default.
    pub policy: Policy,
}

/// Longer than brokers redeliver by default.
const RETENTION: Duration = Duration::from_hours(7 * 24);

// === impl InboxRules ===

impl InboxRules {
    /// The pause before the next delivery, after so many attempts.
    pub(crate) fn pause_after(&self, attempts: u64) -> Duration {
        let doublings = u32::try_from(attempts.saturating_sub(1)).unwrap_or(u32::MAX).min(31);
        self.pause_min.saturating_mul(1 << doublings).min(self.pause_max)
    }
}

impl Default for InboxRules {
    fn default() -> Self {
        Self {
            attempts_max: 10,
            pause_min: Duration::from_secs(1),
            pause_max: Duration::from_mins(5),
            policy: Policy::builder().ttl(RETENTION).build().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_retention_is_a_week() {
        assert_eq!(InboxRules::default().policy.ttl(), RETENTION);
    }

    #[test]
    fn pauses_double_up_to_their_limit() {
        let rules = InboxRules::default();
        let pauses = [0, 1, 2, 3, 8, 9, 10, 1_000, u64::MAX].map(|it| rules.pause_after(it));
        let expected = [1, 1, 2, 4, 128, 256, 300, 300, 300].map(Duration::from_secs);
        assert_eq!(pauses, expected);
    }
}
