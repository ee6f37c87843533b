//! Requests that are rejected before a claim, and what is left of their bodies.

use bytes::Bytes;
use http::header::{self, HeaderMap};
use http::{Response, Version};
use http_body::Body;

use super::ResponseBody;
use super::reading::drain;
use super::rejection::Rejection;
use crate::headers;
use crate::observe::LiveRoute;

/// A request that is rejected before a claim.
pub(crate) struct Rejected {
    why: Rejection,
    /// True if another request may follow on the same connection.
    is_drained: bool,
}

// === impl Rejected ===

impl Rejected {
    /// The body was read to its end already.
    pub(crate) fn drained(why: impl Into<Rejection>) -> Self {
        Self { why: why.into(), is_drained: true }
    }

    /// Reads the body to its end, if it is short: the next request on the connection must never be
    /// parsed out of it.
    pub(crate) async fn drain<B>(
        why: Rejection,
        route: &LiveRoute,
        headers: &HeaderMap,
        body: B,
    ) -> Self
    where
        B: Body<Data = Bytes>,
    {
        let policy = route.policy();
        // A client that waits for 100 Continue is better refused at once.
        let is_drained = !headers.contains_key(header::EXPECT)
            && drain(body, policy.max_request_body, policy.request_body_timeout).await;
        Self { why, is_drained }
    }

    pub(crate) fn answer<R>(
        self,
        route: &LiveRoute,
        version: Version,
    ) -> Response<ResponseBody<R>> {
        let mut response = self.why.response(route.policy());
        if !self.is_drained {
            close(response.headers_mut(), version);
        }
        route.decided(self.why.decided(), None, response.status().as_u16());
        response
    }
}

/// The body was not read to its end.
impl From<Rejection> for Rejected {
    fn from(why: Rejection) -> Self {
        Self { why, is_drained: false }
    }
}

/// Asks for the connection to be closed after this response. HTTP/2 has no such header, and needs
/// none: its streams end by themselves.
pub(crate) fn close(headers: &mut HeaderMap, version: Version) {
    if version <= Version::HTTP_11 {
        headers.insert(header::CONNECTION, headers::CLOSE);
    }
}
