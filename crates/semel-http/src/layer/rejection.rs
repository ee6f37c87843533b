//! The one place where what went wrong becomes a problem: code, status, text and headers.

use http::header::{self, HeaderValue};
use http::{Response, StatusCode};
use semel_core::InFlight;
use semel_engine::{EngineError, TooManyKeys};

use super::ResponseBody;
use super::body_budget::OverBudget;
use super::replay::ReplayError;
use crate::extract::{KeyProblem, ScopeMissing};
use crate::observe::Decided;
use crate::policy::RoutePolicy;
use crate::problem::{Code, Problem};
use crate::retry_after::whole_seconds;
use crate::routes::Ambiguity;
use crate::token::TokenRefused;

/// Why a client gets a problem and no reply of the service. Its text is the `detail`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Rejection {
    #[error(
        "this request needs an idempotency key ({sources}); send a value of your own for each \
         operation, such as a UUID, and the same value when you retry"
    )]
    KeyMissing { sources: String },
    #[error(transparent)]
    KeyInvalid(#[from] KeyProblem),
    #[error(transparent)]
    ScopeMissing(#[from] ScopeMissing),
    #[error("the path {0}; nothing was executed")]
    Ambiguous(Ambiguity),
    #[error("the body is larger than {max} bytes; nothing was executed")]
    BodyTooLarge { max: u64 },
    #[error("the body ended before it was complete; nothing was executed")]
    BodyBroken,
    #[error("the body took too long to arrive; nothing was executed")]
    BodyTimedOut,
    #[error("too many bodies are being received; nothing was executed")]
    BodyOverBudget,
    #[error("the store of idempotency records is unavailable; nothing was executed")]
    StoreUnavailable,
    #[error(
        "the gateway has no file descriptor, memory or queue slot left for its store of \
         idempotency records; nothing was executed"
    )]
    StoreExhausted,
    #[error("{}; nothing was executed; retry with the same key", quota_text(*.0))]
    TooManyKeys(TooManyKeys),
    #[error("{max} requests are running already; nothing was executed")]
    TooManyExecutions { max: usize },
    #[error("the server is shutting down; nothing was executed")]
    ShuttingDown,
    #[error("this key was used for another request; use a new key for each operation")]
    Mismatch,
    #[error(
        "the first request with this key is still running; retry with the same key to get its \
         answer"
    )]
    InProgress { retry_after_s: u32 },
    /// The same, and its holder has missed a renewal.
    #[error(
        "the first request with this key was started, and its lease has not been renewed since; \
         retry with the same key after the time in Retry-After, when the lease has expired"
    )]
    Overdue { retry_after_s: u32 },
    #[error(
        "an earlier request with this key may or may not have taken effect, and nothing is \
         executed under this key while its record is kept; find out whether it took effect before \
         you use another key"
    )]
    OutcomeUnknown,
    #[error(
        "an earlier request with this key was abandoned and counts as failed; check whether it \
         took effect before you try again with a new key"
    )]
    Abandoned,
    #[error(transparent)]
    NotReplayed(#[from] ReplayError),
    #[error("the execution was stopped; retry with the same key to learn its outcome")]
    Interrupted,
    /// The execution panicked.
    #[error("the execution ended without a reply; it may or may not have taken effect")]
    NoReply,
    #[error("the upstream broke off in the middle of its reply")]
    ReplyBroken,
    #[error("the upstream took too long in the middle of its reply")]
    ReplyTimedOut,
}

/// `Retry-After` where the cause may be over at any moment.
const SOON: Option<u32> = Some(1);

// === impl Rejection ===

impl Rejection {
    pub(crate) fn key_missing(policy: &RoutePolicy) -> Self {
        let sources: Vec<_> = policy.key_from.iter().map(ToString::to_string).collect();
        Self::KeyMissing { sources: sources.join(" or ") }
    }

    /// What is counted and logged. Where the service was called, that is the engine's answer instead.
    pub(crate) fn decided(&self) -> Decided {
        self.row().1
    }

    /// The response with the problem. The policy chooses some statuses.
    pub(crate) fn response<R>(&self, policy: &RoutePolicy) -> Response<ResponseBody<R>> {
        let (code, _, retry_after_s) = self.row();
        let is_accepted = policy.core.in_flight() == InFlight::Accepted;
        let status = match self {
            Self::Mismatch => policy.mismatch_status,
            Self::InProgress { .. } | Self::Overdue { .. } if is_accepted => StatusCode::ACCEPTED,
            _ => code.status(),
        };
        let mut problem = Problem::new(code, self.to_string()).with_status(status);
        if let Some(seconds) = retry_after_s {
            problem = problem.with_retry_after(seconds);
        }
        let mut response = problem.into_response();
        if let Some(challenge) = self.challenge() {
            let challenge = HeaderValue::from_static(challenge);
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }

    /// Its code, what is decided, and `Retry-After` in seconds.
    fn row(&self) -> (Code, Decided, Option<u32>) {
        match *self {
            Self::KeyMissing { .. } => (Code::KeyMissing, Decided::KeyMissing, None),
            Self::KeyInvalid(_) => (Code::KeyInvalid, Decided::KeyInvalid, None),
            // Not the client's fault: a 401 would make it discard its token.
            Self::ScopeMissing(ScopeMissing::Token(TokenRefused::NoKeys)) => {
                (Code::TokenKeysUnavailable, Decided::TokenKeysUnavailable, SOON)
            }
            Self::ScopeMissing(_) => (Code::ScopeMissing, Decided::ScopeMissing, None),
            Self::Ambiguous(_) => (Code::RequestRefused, Decided::Refused, None),
            Self::BodyTooLarge { .. } => (Code::RequestBodyTooLarge, Decided::BodyTooLarge, None),
            Self::BodyBroken => (Code::RequestBodyBroken, Decided::BodyBroken, None),
            Self::BodyTimedOut => (Code::RequestTimeout, Decided::BodyBroken, None),
            Self::StoreUnavailable => (Code::StoreUnavailable, Decided::StoreUnavailable, SOON),
            Self::BodyOverBudget
            | Self::StoreExhausted
            | Self::TooManyExecutions { .. }
            | Self::NotReplayed(ReplayError::OverBudget) => (Code::TooBusy, Decided::Refused, SOON),
            Self::TooManyKeys(over) => {
                (Code::TooManyKeys, Decided::TooManyKeys, quota_retry_after(over))
            }
            Self::ShuttingDown => (Code::ShuttingDown, Decided::Refused, SOON),
            Self::Mismatch => (Code::PayloadMismatch, Decided::Mismatch, None),
            Self::InProgress { retry_after_s } | Self::Overdue { retry_after_s } => {
                (Code::RequestInProgress, Decided::InFlight, Some(retry_after_s))
            }
            Self::OutcomeUnknown => (Code::OutcomeUnknown, Decided::Unknown, None),
            Self::Abandoned => (Code::ExecutionAbandoned, Decided::Replayed, None),
            Self::NotReplayed(ReplayError::Unreadable(_)) => {
                (Code::StoredReplyUnreadable, Decided::Unknown, None)
            }
            Self::Interrupted => (Code::ExecutionInterrupted, Decided::Unknown, SOON),
            Self::NoReply => (Code::ExecutionInterrupted, Decided::Unknown, None),
            Self::ReplyBroken => (Code::UpstreamUnreachable, Decided::Unknown, None),
            Self::ReplyTimedOut => (Code::UpstreamTimeout, Decided::Unknown, None),
        }
    }

    /// A 401 must name an authentication scheme (RFC 9110, section 15.5.2).
    const fn challenge(&self) -> Option<&'static str> {
        match self {
            Self::ScopeMissing(ScopeMissing::Token(TokenRefused::NoKeys)) => None,
            // As RFC 6750 has it, section 3.1.
            Self::ScopeMissing(ScopeMissing::Token(_)) => Some(r#"Bearer error="invalid_token""#),
            Self::ScopeMissing(_) => Some("Bearer"),
            _ => None,
        }
    }
}

impl From<&EngineError> for Rejection {
    fn from(error: &EngineError) -> Self {
        match error {
            EngineError::Store(error) if error.is_local() => Self::StoreExhausted,
            EngineError::Store(_) => Self::StoreUnavailable,
            EngineError::TooManyKeys(over) => Self::TooManyKeys(*over),
            EngineError::TooManyExecutions { max } => Self::TooManyExecutions { max: *max },
            EngineError::ShuttingDown => Self::ShuttingDown,
            _ => Self::Interrupted,
        }
    }
}

impl From<OverBudget> for Rejection {
    fn from(over: OverBudget) -> Self {
        match over {
            OverBudget::Now => Self::BodyOverBudget,
            OverBudget::Always { max } => Self::BodyTooLarge { max },
        }
    }
}

/// What the client has used up on this route.
fn quota_text(over: TooManyKeys) -> String {
    match over {
        TooManyKeys::Executions { max } => {
            format!("{max} requests of this client are running on this route already")
        }
        TooManyKeys::NewKeys { rate, .. } => {
            format!("this client has sent more new keys on this route than it may ({rate})")
        }
        TooManyKeys::Records { rate, .. } => {
            format!("this client has begun as many records on this route as it may ({rate})")
        }
        TooManyKeys::RecordBytes { rate, .. } => format!(
            "the recorded replies to this client on this route have as many bytes as they may \
             ({rate})"
        ),
        _ => over.to_string(),
    }
}

fn quota_retry_after(over: TooManyKeys) -> Option<u32> {
    match over {
        TooManyKeys::NewKeys { again_in, .. }
        | TooManyKeys::Records { again_in, .. }
        | TooManyKeys::RecordBytes { again_in, .. } => Some(whole_seconds(again_in)),
        // One of its executions may have ended.
        _ => SOON,
    }
}
