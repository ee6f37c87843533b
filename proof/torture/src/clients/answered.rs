//! What an answer means.

use super::SCOPES;
use super::wire::Answer;
use crate::digest;
use crate::effects::canary;
use crate::history::{Effect, Event};

/// The meaning of an answer for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    /// The outcome, which is recorded.
    Outcome,
    /// The outcome, and that it could not be recorded.
    Unrecorded,
    /// The outcome is unknown.
    Unknown,
    /// That another attempt is executing.
    InProgress,
    /// That nothing happened: the upstream said so, and the key was handed back.
    Released,
    /// That the key belongs to another request.
    Mismatch,
    /// To come again.
    Later,
    /// Nothing.
    Nothing,
}

// === impl Answered ===

impl Answered {
    /// What an answer says, and how it is written down.
    pub(super) fn of(answer: &Answer, op: u64, seed: u64) -> (Self, Event) {
        if let Some(nonce) = answer.header("x-effect-nonce") {
            return outcome(answer, nonce, op, seed);
        }
        let code = code(answer);
        let answered = match (answer.status, code.as_str()) {
            (409, "outcome_unknown") => Self::Unknown,
            (409, "request_in_progress") => Self::InProgress,
            (422, "idempotency_payload_mismatch") => Self::Mismatch,
            _ => Self::Later,
        };
        (answered, refusal(answer, op, code, None))
    }

    /// True if a retry would bring nothing new.
    pub(super) const fn is_final(self) -> bool {
        matches!(self, Self::Outcome | Self::Unknown)
    }

    /// True if there surely is a record.
    pub(super) const fn shows_record(self) -> bool {
        matches!(self, Self::Outcome | Self::Unknown | Self::InProgress | Self::Released)
    }
}

fn outcome(answer: &Answer, nonce: &str, op: u64, seed: u64) -> (Answered, Event) {
    let effect = effect(answer, nonce, seed);
    // A reply of 5xx is not kept.
    if answer.status >= 500 {
        return (Answered::Released, refusal(answer, op, "upstream".to_owned(), Some(effect)));
    }
    let (answered, stored) = match answer.header("x-idempotency-stored") {
        None => (Answered::Outcome, "yes"),
        Some(_) if answer.header("x-idempotency-expires").is_some() => (Answered::Unrecorded, "no"),
        Some(_) => (Answered::Unrecorded, "gone"),
    };
    let event = Event::Ok {
        op,
        status: answer.status,
        effect,
        digest: digest::of_answer(answer.reply()),
        cookies: answer.header("set-cookie").is_some(),
        stored: stored.to_owned(),
    };
    (answered, event)
}

/// What a reply of the upstream says of its execution.
fn effect(answer: &Answer, nonce: &str, seed: u64) -> Effect {
    let line = answer.body.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line).into_owned();
    let part = |name: &str| line.split(' ').find_map(|part| part.strip_prefix(name)).unwrap_or("");
    let is_same = part("nonce=") == nonce;
    Effect {
        nonce: if is_same { nonce.to_owned() } else { format!("{nonce} and {}", part("nonce=")) },
        said: digest::of_upstream(answer.reply()),
        scope: (0..SCOPES).find(|scope| canary(seed, *scope) == part("canary=")),
        key: part("key=").to_owned(),
        replayed: answer.header("x-idempotency-replayed") == Some("true"),
    }
}

fn refusal(answer: &Answer, op: u64, code: String, effect: Option<Effect>) -> Event {
    let retry_after = answer.header("retry-after").is_some();
    Event::Fail { op, status: answer.status, code, retry_after, effect }
}

fn code(answer: &Answer) -> String {
    let problem: Option<serde_json::Value> = serde_json::from_slice(&answer.body).ok();
    let code = problem.as_ref().and_then(|problem| problem.get("error_code")?.as_str());
    code.unwrap_or("none").to_owned()
}
