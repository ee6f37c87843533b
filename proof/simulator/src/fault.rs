use std::fmt;

/// What goes wrong in a run, by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A verb never arrives. Its caller gets no answer, or a connection error.
    RequestLost,
    /// A verb takes effect, and its answer never arrives.
    AnswerLost,
    /// A verb fails at once, certainly without an effect.
    Refused,
    /// A verb arrives up to 25 seconds after it was sent, or its answer up to 25 seconds after it was given,
    /// whether or not its caller still waits.
    Late,
    /// A verb arrives twice, the second time up to 25 seconds later.
    Duplicated,
    /// The store reports that stored data is damaged.
    Damaged,
    /// A node's requests do not reach the store for a while, or the store's answers do not reach the node.
    Partition,
    /// The store does nothing for a while: it refuses, or hangs.
    Outage,
    /// The store stops and starts again. It keeps what it acknowledged; what is on its way is cut off.
    Restart,
    /// A node ends, with all its tasks and clients, and a fresh one takes its place.
    Crash,
    /// A node stands still, mostly past its leases, and continues without noticing it.
    Pause,
    /// A node is shut down in an orderly way, and ended at its deadline.
    Shutdown,
    /// The store's clock jumps forward.
    ClockForward,
    /// The store's clock jumps back.
    ClockBack,
    /// A client leaves before it has its answer.
    HangUp,
    /// Work takes longer than its lease.
    SlowWork,
    /// Work panics.
    Panic,
    /// Work ends without knowing whether it took effect.
    UnknownOutcome,
    /// Work fails for now, and may be tried again.
    FailedForNow,
    /// A client uses a key for another request.
    Mismatch,
    /// A key is used again after its record expired.
    Reuse,
}

// === impl Fault ===

impl Fault {
    /// All kinds.
    pub const ALL: [Self; 21] = [
        Self::RequestLost,
        Self::AnswerLost,
        Self::Refused,
        Self::Late,
        Self::Duplicated,
        Self::Damaged,
        Self::Partition,
        Self::Outage,
        Self::Restart,
        Self::Crash,
        Self::Pause,
        Self::Shutdown,
        Self::ClockForward,
        Self::ClockBack,
        Self::HangUp,
        Self::SlowWork,
        Self::Panic,
        Self::UnknownOutcome,
        Self::FailedForNow,
        Self::Mismatch,
        Self::Reuse,
    ];

    /// In a word or two.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RequestLost => "request lost",
            Self::AnswerLost => "answer lost",
            Self::Refused => "refused",
            Self::Late => "late",
            Self::Duplicated => "duplicated",
            Self::Damaged => "damaged",
            Self::Partition => "partition",
            Self::Outage => "outage",
            Self::Restart => "restart",
            Self::Crash => "crash",
            Self::Pause => "pause",
            Self::Shutdown => "shutdown",
            Self::ClockForward => "clock forward",
            Self::ClockBack => "clock back",
            Self::HangUp => "hang-up",
            Self::SlowWork => "slow work",
            Self::Panic => "panic",
            Self::UnknownOutcome => "unknown outcome",
            Self::FailedForNow => "failed for now",
            Self::Mismatch => "mismatch",
            Self::Reuse => "reuse",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
