//! What can be wrong with a network.

use std::time::Duration;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the connecting side to the accepting side.
    Up,
    /// The way back.
    Down,
}

/// One thing that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toxic {
    /// Nothing.
    None,
    /// All takes longer, by this and up to as much again as `jitter`.
    Latency {
        /// At least.
        delay: Duration,
        /// At most so much more.
        jitter: Duration,
    },
    /// So few bytes get through.
    Slow {
        /// Each way.
        bytes_per_second: u64,
    },
    /// Nothing gets through one way, silently. The bytes arrive when it is over.
    BlackHole {
        /// Which way.
        direction: Direction,
    },
    /// A connection is closed on both sides after up to so many bytes more.
    Cut {
        /// At most.
        after_bytes: u64,
    },
    /// A connection is reset on both sides after up to so many bytes more of a reply.
    Reset {
        /// At most.
        after_bytes: u64,
    },
    /// Connections that were there when it began stand still on the way up, and new ones do not. What was sent on
    /// them arrives when it is over, though its sender has closed them by then: a kernel goes on sending what it
    /// was given.
    Late {
        /// It may strike again before it is over, with a higher number: those that were new then stand still too.
        wave: u32,
        /// True if the bytes are delayed, with a reset behind them. Otherwise they are lost and sent again by the
        /// sender's kernel: a connection that was reset delivers nothing.
        is_queued: bool,
    },
    /// The far side is gone, and the near side notices only when it is over.
    HalfOpen,
}

// === impl Toxic ===

impl Toxic {
    /// The wave from which on connections stand still; 0 if none does.
    pub(super) fn wave(self) -> u32 {
        match self {
            Self::Late { wave, .. } => wave,
            _ => 0,
        }
    }

    pub(super) fn is_queued(self) -> bool {
        matches!(self, Self::Late { is_queued: true, .. })
    }

    pub(super) fn swallows(self, way: Direction) -> bool {
        matches!(self, Self::BlackHole { direction } if direction == way)
    }

    /// After how many bytes at most a connection ends.
    pub(super) fn bytes_max(self, way: Direction) -> Option<u64> {
        match self {
            Self::Cut { after_bytes } => Some(after_bytes),
            Self::Reset { after_bytes } if way == Direction::Down => Some(after_bytes),
            _ => None,
        }
    }
}
