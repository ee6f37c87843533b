//! Requests that are rejected before a claim.

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Response, Version};
use http_body::Body;

use super::ResponseBody;
use super::reading::drain;
use crate::extract::{KeyProblem, ScopeMissing};
use crate::headers;
use crate::observe::{Decided, LiveRoute};
use crate::policy::RoutePolicy;
use crate::problem::{Code, Problem};
use crate::routes::Ambiguity;
use crate::token::TokenRefused;

/// Why a request is rejected before a claim.
pub(crate) struct Rejection {
    decided: Decided,
    problem: Problem,
    /// A 401 must name an authentication scheme (RFC 9110, section 15.5.2).
    challenge: Option<&'static str>,
    /// True if another request may follow on the same connection.
    drained: bool,
}

// === impl Rejection ===

impl Rejection {
    fn new(decided: Decided, code: Code, detail: impl Into<Box<str>>) -> Self {
        Self { decided, problem: Problem::new(code, detail), challenge: None, drained: false }
    }

    pub(crate) fn key_missing(policy: &RoutePolicy) -> Self {
        let sources: Vec<_> = policy.key_from.iter().map(ToString::to_string).collect();
        let detail = format!(
            "this request needs an idempotency key ({}); send a value of your own for each \
             operation, such as a UUID, and the same value when you retry",
            sources.join(" or ")
        );
        Self::new(Decided::KeyMissing, Code::KeyMissing, detail)
    }

    pub(crate) fn scope_missing(missing: &ScopeMissing) -> Self {
        let detail = missing.to_string();
        let challenge = match missing {
            // Not the client's fault: a 401 would make it discard its token.
            ScopeMissing::Token(TokenRefused::NoKeys) => {
                let mut refused =
                    Self::new(Decided::TokenKeysUnavailable, Code::TokenKeysUnavailable, detail);
                refused.problem = refused.problem.with_retry_after(1);
                return refused;
            }
            // As RFC 6750 has it, section 3.1.
            ScopeMissing::Token(_) => r#"Bearer error="invalid_token""#,
            _ => "Bearer",
        };
        let mut refused = Self::new(Decided::ScopeMissing, Code::ScopeMissing, detail);
        refused.challenge = Some(challenge);
        refused
    }

    pub(crate) fn key_invalid(problem: &KeyProblem) -> Self {
        Self::new(Decided::KeyInvalid, Code::KeyInvalid, problem.to_string())
    }

    pub(crate) fn ambiguous(ambiguity: Ambiguity) -> Self {
        let detail = format!("the path {ambiguity}; nothing was executed");
        Self::new(Decided::Refused, Code::RequestRefused, detail)
    }

    pub(crate) fn too_large(limit: u64) -> Self {
        let detail = format!("the body is larger than {limit} bytes; nothing was executed");
        Self::new(Decided::BodyTooLarge, Code::RequestBodyTooLarge, detail)
    }

    pub(crate) fn broken() -> Self {
        let detail = "the body ended before it was complete; nothing was executed";
        Self::new(Decided::BodyBroken, Code::RequestBodyBroken, detail)
    }

    pub(crate) fn late() -> Self {
        let detail = "the body took too long to arrive; nothing was executed";
        Self::new(Decided::BodyBroken, Code::RequestTimeout, detail)
    }

    pub(crate) fn over_budget() -> Self {
        let detail = "too many bodies are being received; nothing was executed";
        let mut refused = Self::new(Decided::Refused, Code::TooBusy, detail);
        refused.problem = refused.problem.with_retry_after(1);
        refused
    }

    /// The body was read to its end already.
    pub(crate) const fn drained(mut self) -> Self {
        self.drained = true;
        self
    }

    /// Reads the body to its end, if it is short: the next request on the connection must never be
    /// parsed out of it.
    pub(crate) async fn drain<B>(mut self, route: &LiveRoute, headers: &HeaderMap, body: B) -> Self
    where
        B: Body<Data = Bytes>,
    {
        let policy = route.policy();
        // A client that waits for 100 Continue is better refused at once.
        self.drained = !headers.contains_key(header::EXPECT)
            && drain(body, policy.max_request_body, policy.request_body_timeout).await;
        self
    }

    pub(crate) fn answer<R>(
        self,
        route: &LiveRoute,
        version: Version,
    ) -> Response<ResponseBody<R>> {
        let mut response = self.problem.into_response();
        if let Some(challenge) = self.challenge {
            let challenge = HeaderValue::from_static(challenge);
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        if !self.drained {
            close(response.headers_mut(), version);
        }
        route.decided(self.decided, None, response.status().as_u16());
        response
    }
}

/// Asks for the connection to be closed after this response. HTTP/2 has no such header, and needs
/// none: its streams end by themselves.
pub(crate) fn close(headers: &mut HeaderMap, version: Version) {
    if version <= Version::HTTP_11 {
        headers.insert(header::CONNECTION, headers::CLOSE);
    }
}
