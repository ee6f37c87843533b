//! What an execution does, drawn from the seed.

use std::time::Duration;

use bytes::Bytes;

use crate::dice::Dice;

/// How one execution goes.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) takes: Duration,
    /// 0 says that it closes the connection instead of answering.
    pub(super) status: u16,
    pub(super) filling: Bytes,
}

/// What is to come how often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shares {
    /// Of a hundred keys, how many take longer than the lease.
    pub(crate) slow_percent: u64,
    /// Of a hundred executions that are not slow, how many say that nothing happened.
    pub(crate) refused_percent: u64,
}

/// Later ones succeed at once, so that every key comes to an end.
const FENCE_WITH_FAILURES_MAX: u64 = 3;

// === impl Plan ===

impl Plan {
    /// Of the execution with this fence, out of all of its key.
    ///
    /// A key that is slow is slow most times: so a late holder finds its successor still at work.
    pub(super) fn draw(seed: u64, shares: Shares, record: &str, fence: u64) -> Self {
        let Shares { slow_percent, refused_percent } = shares;
        let is_slow = Dice::of(seed, record, 0).percent(slow_percent);
        let mut dice = Dice::of(seed, record, fence);
        let may_fail = fence <= FENCE_WITH_FAILURES_MAX;
        let is_slow = is_slow && may_fail && dice.percent(75);
        let takes = if is_slow {
            // Past the lease, so that it has to be renewed.
            dice.between(2_200, 4_000)
        } else if dice.percent(20) {
            dice.between(1, 60)
        } else {
            0
        };
        // Not both, or a key could take longer to come to its end than the checker waits.
        let may_fail = may_fail && !is_slow;
        let refused = 3..3 + refused_percent;
        let status = match dice.roll() % 100 {
            0..3 => 402,
            roll if may_fail && refused.contains(&roll) => 503,
            roll if may_fail && roll == refused.end => 0,
            _ => 201,
        };
        Self { takes: Duration::from_millis(takes), status, filling: filling(&mut dice) }
    }
}

/// Bytes of all kinds; some that can be compressed, and a few that are many.
fn filling(dice: &mut Dice) -> Bytes {
    let length = match dice.roll() % 1_000 {
        0 => dice.between(70_000, 100_000),
        1..20 => dice.between(3_000, 30_000),
        20..300 => dice.between(400, 3_000),
        _ => dice.between(0, 400),
    };
    let is_plain = dice.percent(50);
    let mut byte = |at: u64| if is_plain { at % 7 } else { dice.roll() % 256 };
    (0..length).map(|at| u8::try_from(byte(at)).unwrap_or(0)).collect()
}
