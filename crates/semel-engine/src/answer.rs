use std::sync::Arc;

use semel_core::{Claim, RecordId};
use semel_store::{Answer, Stored};
use tokio::sync::oneshot;

use crate::EngineError;
use crate::lines::Lines;

/// The caller of [`Engine::once`](crate::Engine::once), as the detached task sees it: it gets one answer,
/// unless it has left.
#[derive(Debug)]
pub(crate) struct Caller {
    id: RecordId,
    lines: Arc<Lines>,
    sender: Option<oneshot::Sender<Result<Answer, EngineError>>>,
}

// === impl Caller ===

impl Caller {
    pub(crate) const fn new(
        id: RecordId,
        lines: Arc<Lines>,
        sender: oneshot::Sender<Result<Answer, EngineError>>,
    ) -> Self {
        Self { id, lines, sender: Some(sender) }
    }

    /// Sends the answer. Only the first counts, and the caller may have left.
    pub(crate) fn answer(&mut self, answer: Result<Answer, EngineError>) {
        let Some(sender) = self.sender.take() else {
            return;
        };
        match &answer {
            Ok(answer) => log(answer, self.id, &self.lines),
            Err(error) => self.lines.refused(error).line(|left_out| {
                tracing::warn!(record = %self.id.prefix(), %error, left_out, "refused");
            }),
        }
        let _ = sender.send(answer);
    }

    /// Whether the caller is still there and has no answer yet.
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

/// The answer to a claim that needs nothing more. All others take their way through a task.
pub(crate) fn recalled(claim: Claim) -> Option<Answer> {
    match claim {
        Claim::Replay { settlement, expires } => Some(Answer::Replayed { settlement, expires }),
        Claim::Mismatch => Some(Answer::Mismatch),
        Claim::Execute(_) | Claim::InFlight { .. } | Claim::Unknown => None,
    }
}

/// Writes an answer to the log: as a warning if it breaks a guarantee, otherwise at the debug level.
pub(crate) fn log(given: &Answer, id: RecordId, lines: &Lines) {
    let answer = given.as_str();
    match given {
        _ if given.is_guaranteed() => {
            tracing::debug!(record = %id.prefix(), answer, "answered");
        }
        Answer::Bypassed { .. } => lines.bypass_answered.line(|left_out| {
            tracing::warn!(record = %id.prefix(), answer, left_out, "answered");
        }),
        Answer::Executed { stored: Stored::Gone, .. } => lines.answered_gone.line(|left_out| {
            tracing::warn!(record = %id.prefix(), answer, left_out, "answered");
        }),
        _ => lines.answered_unrecorded.line(|left_out| {
            tracing::warn!(record = %id.prefix(), answer, left_out, "answered");
        }),
    }
}
