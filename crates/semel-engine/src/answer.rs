use semel_core::{Claim, Fence, Outcome, RecordId, Reply, Settlement, Timestamp};
use tokio::sync::oneshot;

use crate::EngineError;

/// What an attempt is told.
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
        /// Is it recorded?
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
    /// [`Limits`](crate::Limits)) or took too long. The same attempt may come again.
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

/// Is an outcome recorded?
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

/// Whoever called [`Engine::once`](crate::Engine::once), as the detached task sees it: someone who
/// wants one answer and may have left.
#[derive(Debug)]
pub(crate) struct Caller {
    id: RecordId,
    sender: Option<oneshot::Sender<Result<Answer, EngineError>>>,
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

    /// The answer to a claim that needs nothing more. All others take their way through a task.
    pub(crate) fn recalled(claim: Claim) -> Option<Self> {
        match claim {
            Claim::Replay { settlement, expires } => Some(Self::Replayed { settlement, expires }),
            Claim::Mismatch => Some(Self::Mismatch),
            Claim::Execute(_) | Claim::InFlight { .. } | Claim::Unknown => None,
        }
    }

    /// Writes it to the log: quietly, unless it breaks a promise.
    pub(crate) fn log(&self, id: RecordId) {
        if self.is_guaranteed() {
            tracing::debug!(record = %id.prefix(), answer = self.word(), "answered");
        } else {
            tracing::warn!(record = %id.prefix(), answer = self.word(), "answered");
        }
    }

    /// Does it keep all promises? The others must never be given silently (trap 15).
    const fn is_guaranteed(&self) -> bool {
        !matches!(
            self,
            Self::Bypassed { .. } | Self::Executed { stored: Stored::NotYet | Stored::Gone, .. }
        )
    }

    /// The answer in a word, for logs.
    const fn word(&self) -> &'static str {
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

// === impl Caller ===

impl Caller {
    pub(crate) const fn new(
        id: RecordId,
        sender: oneshot::Sender<Result<Answer, EngineError>>,
    ) -> Self {
        Self { id, sender: Some(sender) }
    }

    /// Gives the answer. Only the first counts, and nobody may be there to hear it.
    pub(crate) fn answer(&mut self, answer: Result<Answer, EngineError>) {
        let Some(sender) = self.sender.take() else {
            return;
        };
        match &answer {
            Ok(answer) => answer.log(self.id),
            Err(error) => tracing::warn!(record = %self.id.prefix(), %error, "refused"),
        }
        let _ = sender.send(answer);
    }

    /// Is somebody still there who has no answer yet?
    pub(crate) fn is_waiting(&self) -> bool {
        self.sender.as_ref().is_some_and(|sender| !sender.is_closed())
    }

    /// Completes once the caller has left without an answer. Cancel-safe.
    pub(crate) async fn left(&mut self) {
        match &mut self.sender {
            Some(sender) => sender.closed().await,
            None => std::future::pending().await,
        }
    }
}
