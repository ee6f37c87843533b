//! Errors as `application/problem+json` (RFC 9457): the only place that knows their statuses.

use std::fmt::Write as _;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Response, StatusCode};

/// What went wrong, by its code. Each has a page in `docs/problems/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// The route asks for a key, and none came.
    KeyMissing,
    /// The key is empty, too long, given twice, or has characters that keys do not have.
    KeyInvalid,
    /// The route asks for a client identity, and none came.
    ScopeMissing,
    /// The key was used for another request.
    PayloadMismatch,
    /// The first attempt is still running.
    RequestInProgress,
    /// The work may or may not have happened, and the record is held.
    OutcomeUnknown,
    /// The work was abandoned, and that was settled as a failure.
    ExecutionAbandoned,
    /// The store is unavailable.
    StoreUnavailable,
    /// The keys by which tokens are verified have not been read yet.
    TokenKeysUnavailable,
    /// The body is over the limit of the route.
    RequestBodyTooLarge,
    /// The body ended before it was complete, or could not be read.
    RequestBodyBroken,
    /// The body took too long to arrive.
    RequestTimeout,
    /// No connection to the upstream, or it broke off.
    UpstreamUnreachable,
    /// The upstream did not answer in time.
    UpstreamTimeout,
    /// The client has used up what it may take on the route.
    TooManyKeys,
    /// A limit of the process is reached.
    TooBusy,
    /// The gateway is shutting down.
    ShuttingDown,
    /// The task that executed was stopped.
    ExecutionInterrupted,
    /// The request cannot be passed on as it is.
    RequestRefused,
    /// The work was done, but its stored reply cannot be read.
    StoredReplyUnreadable,
}

/// One problem, ready to be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    code: Code,
    status: StatusCode,
    detail: Box<str>,
    retry_after_s: Option<u32>,
    is_retry_safe: bool,
}

/// The base URL of the pages of the codes.
const PAGES: &str = "https://semel.dev/problems/";

// === impl Code ===

impl Code {
    /// All codes.
    pub const ALL: [Self; 20] = [
        Self::KeyMissing,
        Self::KeyInvalid,
        Self::ScopeMissing,
        Self::PayloadMismatch,
        Self::RequestInProgress,
        Self::OutcomeUnknown,
        Self::ExecutionAbandoned,
        Self::StoreUnavailable,
        Self::TokenKeysUnavailable,
        Self::RequestBodyTooLarge,
        Self::RequestBodyBroken,
        Self::RequestTimeout,
        Self::UpstreamUnreachable,
        Self::UpstreamTimeout,
        Self::TooManyKeys,
        Self::TooBusy,
        Self::ShuttingDown,
        Self::ExecutionInterrupted,
        Self::RequestRefused,
        Self::StoredReplyUnreadable,
    ];

    /// The text in `error_code`.
    pub const fn as_str(self) -> &'static str {
        self.row().0
    }

    /// The usual status; a policy may choose another.
    pub const fn status(self) -> StatusCode {
        self.row().1
    }

    /// A short title, the same for every occurrence.
    pub const fn title(self) -> &'static str {
        self.row().2
    }

    /// True if the client may safely retry with the same key.
    pub const fn is_retry_safe(self) -> bool {
        self.row().3
    }

    /// Code, status, title, and whether a retry with the same key is safe.
    const fn row(self) -> (&'static str, StatusCode, &'static str, bool) {
        use StatusCode as S;
        match self {
            Self::KeyMissing => {
                ("idempotency_key_missing", S::BAD_REQUEST, "Idempotency key missing", false)
            }
            Self::KeyInvalid => {
                ("idempotency_key_invalid", S::BAD_REQUEST, "Idempotency key invalid", false)
            }
            Self::ScopeMissing => {
                ("idempotency_scope_missing", S::UNAUTHORIZED, "Client identity missing", false)
            }
            Self::PayloadMismatch => (
                "idempotency_payload_mismatch",
                S::CONFLICT,
                "Idempotency key used for another request",
                false,
            ),
            Self::RequestInProgress => {
                ("request_in_progress", S::CONFLICT, "Request in progress", true)
            }
            Self::OutcomeUnknown => ("outcome_unknown", S::CONFLICT, "Outcome unknown", true),
            Self::ExecutionAbandoned => {
                ("execution_abandoned", S::INTERNAL_SERVER_ERROR, "Execution abandoned", false)
            }
            Self::StoreUnavailable => (
                "idempotency_store_unavailable",
                S::SERVICE_UNAVAILABLE,
                "Idempotency store unavailable",
                true,
            ),
            Self::TokenKeysUnavailable => (
                "token_keys_unavailable",
                S::SERVICE_UNAVAILABLE,
                "Keys of tokens unavailable",
                true,
            ),
            Self::RequestBodyTooLarge => {
                ("request_body_too_large", S::PAYLOAD_TOO_LARGE, "Request body too large", false)
            }
            Self::RequestBodyBroken => {
                ("request_body_broken", S::BAD_REQUEST, "Request body incomplete", true)
            }
            Self::RequestTimeout => {
                ("request_timeout", S::REQUEST_TIMEOUT, "Request took too long to arrive", true)
            }
            Self::UpstreamUnreachable => {
                ("upstream_unreachable", S::BAD_GATEWAY, "Upstream unreachable", true)
            }
            Self::UpstreamTimeout => {
                ("upstream_timeout", S::GATEWAY_TIMEOUT, "Upstream took too long", true)
            }
            Self::TooManyKeys => {
                ("too_many_keys", S::TOO_MANY_REQUESTS, "Too many keys of one client", true)
            }
            Self::TooBusy => ("too_busy", S::SERVICE_UNAVAILABLE, "Too much is running", true),
            Self::ShuttingDown => ("shutting_down", S::SERVICE_UNAVAILABLE, "Shutting down", true),
            Self::ExecutionInterrupted => {
                ("execution_interrupted", S::INTERNAL_SERVER_ERROR, "Execution interrupted", true)
            }
            Self::RequestRefused => {
                ("request_refused", S::BAD_REQUEST, "Request cannot be passed on", false)
            }
            Self::StoredReplyUnreadable => (
                "stored_reply_unreadable",
                S::INTERNAL_SERVER_ERROR,
                "Stored reply unreadable",
                true,
            ),
        }
    }
}

// === impl Problem ===

impl Problem {
    /// A problem of this code; `detail` says what happened and what to do, and never quotes a key,
    /// a body or a credential.
    pub fn new(code: Code, detail: impl Into<Box<str>>) -> Self {
        Self {
            code,
            status: code.status(),
            detail: detail.into(),
            retry_after_s: None,
            is_retry_safe: code.is_retry_safe(),
        }
    }

    /// The same, where this occurrence may be less safe to retry than the code says: without a key,
    /// what may have been executed would be executed again.
    #[must_use]
    pub const fn retry_safe(mut self, is_safe: bool) -> Self {
        self.is_retry_safe = self.code.is_retry_safe() && is_safe;
        self
    }

    /// The same with another status.
    #[must_use]
    pub const fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// The same with a `Retry-After` of this many seconds.
    #[must_use]
    pub const fn with_retry_after(mut self, seconds: u32) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    /// Its code.
    pub const fn code(&self) -> Code {
        self.code
    }

    /// The response, with a body of any kind that can be made from bytes.
    pub fn into_response<B: From<Bytes>>(self) -> Response<B> {
        let mut response = Response::new(B::from(Bytes::from(self.to_json())));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response.extensions_mut().insert(self.code);
        response
    }

    fn to_json(&self) -> String {
        let (code, title) = (self.code.as_str(), self.code.title());
        let (status, retry_safe) = (self.status.as_u16(), self.is_retry_safe);
        let detail = escaped(&self.detail);
        format!(
            r#"{{"type":"{PAGES}{code}","title":"{title}","status":{status},"detail":"{detail}","error_code":"{code}","error_message":"{detail}","retry_safe":{retry_safe}}}"#,
        )
    }
}

/// The inside of a JSON string.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            control if control < ' ' => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests;
