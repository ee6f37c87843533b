use semel_core::{Fence, Outcome, Reply, Settlement, Timestamp};

/// The answer to an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This attempt executed, and its outcome is the one that counts.
    Executed {
        /// The outcome, as it is or will be replayed.
        settlement: Settlement,
        /// Until when it can be replayed, on the store's clock.
        expires: Timestamp,
        /// The fence under which it was executed.
        fence: Fence,
        /// Whether it is recorded.
        stored: Stored,
    },
    /// This attempt executed, and its lease was handed back: a further attempt executes again.
    Released {
        /// [`Outcome::FailedForNow`], or [`Outcome::Unknown`] where the policy is to release.
        outcome: Outcome,
        /// The fence under which it was executed.
        fence: Fence,
    },
    /// The outcome was recorded by another execution. This attempt did not execute, or it had lost
    /// its lease and its own outcome does not count (I4).
    Replayed {
        /// The recorded outcome.
        settlement: Settlement,
        /// Until when it can be replayed, on the store's clock.
        expires: Timestamp,
    },
    /// Another attempt is executing, and waiting for it was not asked for, not possible (see
    /// the limits of the engine) or took too long. The same attempt may come again.
    InFlight {
        /// When the other's lease was to run out, on the store's clock, unless it is renewed.
        until: Timestamp,
    },
    /// The key was used for another request: nothing was executed, nothing is replayed (I8).
    Mismatch,
    /// The work may or may not have taken effect, and the policy is to hold.
    Unknown {
        /// What the work itself replied, if it was this attempt that executed.
        reply: Option<Reply>,
    },
    /// The store could not be asked and the policy is to fail open: executed **without
    /// protection**. A duplicate may have been executed too; tell the client and count it
    /// (trap 15).
    Bypassed {
        /// How the work ended.
        outcome: Outcome,
    },
}

/// Whether an outcome is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It is durable in the store.
    Durable,
    /// The store was lost after the execution: settling goes on in the background, under a lease
    /// that is kept alive (the exception of I6).
    NotYet,
    /// It never will be: the record had expired, or was deleted, while the work ran. A further
    /// attempt executes again.
    Gone,
}

// === impl Answer ===

impl Answer {
    /// The reply to give, if the answer carries one.
    pub const fn reply(&self) -> Option<&Reply> {
        match self {
            Self::Executed { settlement, .. } | Self::Replayed { settlement, .. } => {
                settlement.reply()
            }
            Self::Released { outcome, .. } | Self::Bypassed { outcome } => Some(match outcome {
                Outcome::Completed(reply)
                | Outcome::Failed(reply)
                | Outcome::FailedForNow(reply)
                | Outcome::Unknown(reply) => reply,
            }),
            Self::Unknown { reply } => reply.as_ref(),
            Self::InFlight { .. } | Self::Mismatch => None,
        }
    }

    /// Whether it keeps all promises. The others must never be given silently (trap 15).
    pub const fn is_guaranteed(&self) -> bool {
        !matches!(
            self,
            Self::Bypassed { .. } | Self::Executed { stored: Stored::NotYet | Stored::Gone, .. }
        )
    }

    /// The answer in a word, for logs.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Executed { stored, .. } => match stored {
                Stored::Durable => "executed",
                Stored::NotYet => "executed, not yet stored",
                Stored::Gone => "executed, record gone",
            },
            Self::Released { .. } => "released",
            Self::Replayed { .. } => "replayed",
            Self::InFlight { .. } => "in flight",
            Self::Mismatch => "mismatch",
            Self::Unknown { .. } => "unknown",
            Self::Bypassed { .. } => "bypassed",
        }
    }
}
