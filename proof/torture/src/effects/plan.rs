//! What an execution does, drawn from the seed.

use std::time::Duration;

use bytes::Bytes;

use crate::rng::Rng;

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
        let is_slow = Rng::of(seed, record, 0).percent(slow_percent);
        let mut rng = Rng::of(seed, record, fence);
        let may_fail = fence <= FENCE_WITH_FAILURES_MAX;
        let is_slow = is_slow && may_fail && rng.percent(75);
        let takes = if is_slow {
            // Past the lease, so that it has to be renewed.
            rng.between(2_200, 4_000)
        } else if rng.percent(20) {
            rng.between(1, 60)
        } else {
            0
        };
        // Not both, or a key could take longer to come to its end than the checker waits.
        let may_fail = may_fail && !is_slow;
        let refused = 3..3 + refused_percent;
        let status = match rng.next_u64() % 100 {
            0..3 => 402,
            next if may_fail && refused.contains(&next) => 503,
            next if may_fail && next == refused.end => 0,
            _ => 201,
        };
        Self { takes: Duration::from_millis(takes), status, filling: filling(&mut rng) }
    }
}

/// Bytes of all kinds; some that can be compressed, and a few that are many.
fn filling(rng: &mut Rng) -> Bytes {
    let length = match rng.next_u64() % 1_000 {
        0 => rng.between(70_000, 100_000),
        1..20 => rng.between(3_000, 30_000),
        20..300 => rng.between(400, 3_000),
        _ => rng.between(0, 400),
    };
    let is_plain = rng.percent(50);
    let mut byte = |at: u64| if is_plain { at % 7 } else { rng.next_u64() % 256 };
    (0..length).map(|at| u8::try_from(byte(at)).unwrap_or(0)).collect()
}
