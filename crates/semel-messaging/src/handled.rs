use std::time::Duration;

use semel_core::{Outcome, Reply, Settlement};
use semel_engine::Answer;

use crate::InboxRules;
use crate::message::Message;

/// What became of a delivery, and so what the consumer owes the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handled {
    /// The work was done. Acknowledge.
    Done,
    /// The work had been done by an earlier delivery. Acknowledge.
    Duplicate,
    /// The work was not done, or another consumer does it now. Let the broker deliver the message again after this
    /// time.
    Later(Duration),
    /// The work will never be done, for this reason. Acknowledge, and put the message aside for people.
    Dead(String),
    /// It is not known whether the work was done, and the policy is to hold. Do not acknowledge; an operator resolves
    /// the record, or its holder returns.
    Unknown,
}

/// The reason of an event id that came with another payload before.
pub(crate) const MISMATCH: &str = "the event id was used for another payload";
/// The reason of an abandoned record under `on_abandoned = fail`.
const ABANDONED: &str = "an earlier attempt crashed, and the policy is to fail";

// === impl Handled ===

impl Handled {
    /// Whether to acknowledge the message. The others must be delivered again.
    pub const fn is_acknowledged(&self) -> bool {
        matches!(self, Self::Done | Self::Duplicate | Self::Dead(_))
    }

    /// The result in a word, for logs and metrics.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Duplicate => "duplicate",
            Self::Later(_) => "later",
            Self::Dead(_) => "dead",
            Self::Unknown => "unknown",
        }
    }

    /// What an answer of the engine means for the consumer.
    pub(crate) fn of(answer: Answer, message: &Message, rules: &InboxRules) -> Self {
        let later = |fence: u64| Self::Later(rules.pause_after(fence.max(message.delivered())));
        match answer {
            // Also if the record is not stored yet: a delivery that is not acknowledged could be executed by another
            // process meanwhile.
            Answer::Executed { settlement: Settlement::Completed(_), .. }
            | Answer::Bypassed { outcome: Outcome::Completed(_) } => Self::Done,
            Answer::Executed { settlement: Settlement::Failed(reply), .. }
            | Answer::Replayed { settlement: Settlement::Failed(reply), .. }
            | Answer::Bypassed { outcome: Outcome::Failed(reply) } => Self::Dead(reason(&reply)),
            Answer::Replayed { settlement: Settlement::Completed(_), .. } => Self::Duplicate,
            Answer::Executed { settlement: Settlement::Abandoned, .. }
            | Answer::Replayed { settlement: Settlement::Abandoned, .. } => {
                Self::Dead(ABANDONED.to_owned())
            }
            Answer::Released { fence, .. } => later(fence.get()),
            Answer::InFlight { .. } | Answer::Bypassed { .. } => later(1),
            Answer::Mismatch => {
                tracing::error!(event = message.id().as_str(), "{MISMATCH}");
                Self::Dead(MISMATCH.to_owned())
            }
            Answer::Unknown { .. } => Self::Unknown,
        }
    }
}

/// The reason as it was settled.
fn reason(reply: &Reply) -> String {
    String::from_utf8_lossy(reply.bytes()).into_owned()
}
