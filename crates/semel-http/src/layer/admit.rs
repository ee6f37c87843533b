//! Admission of a request before its claim: a key, a scope, and a body that has been read. The same
//! for both layers.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http::header::HeaderValue;
use http::request::Parts;
use http_body::Body;
use semel_core::{Fingerprint, Key, RecordId, Scope};
use semel_engine::Quota;

use super::body_budget::BodyBudget;
use super::reading::{Reading, read};
use super::rejected::Rejected;
use super::rejection::Rejection;
use super::{BoxError, RequestBody};
use crate::extract::{KeyProblem, identity_of, key_in_body, looks_into_body, token};
use crate::headers;
use crate::observe::LiveRoute;
use crate::policy::Need;
use crate::token::VerifyToken;

/// What requests are admitted with.
#[derive(Clone, Debug)]
pub(crate) struct Admission {
    pub(crate) namespace: Box<str>,
    pub(crate) budget: Arc<BodyBudget>,
    /// Verifies tokens.
    pub(crate) verifier: Option<Arc<dyn VerifyToken>>,
}

/// A request whose body has been read, with its key and scope.
pub(crate) struct Ready<B> {
    pub(crate) request: Request<RequestBody<B>>,
    pub(crate) id: RecordId,
    pub(crate) fingerprint: Fingerprint,
    /// The limits of its client; `None` if the client is unknown.
    pub(crate) quota: Option<Quota>,
}

/// How a request is handled whose body has been read.
pub(crate) enum Admitted<B> {
    Ready(Ready<B>),
    /// It has no key and needs none.
    Pass(Request<RequestBody<B>>),
}

/// The default memory budget of bodies.
const BUFFERED_MAX: u64 = 256 << 20;

// === impl Admission ===

impl Admission {
    /// Reads key, scope and body of a request.
    pub(crate) fn admit<B>(
        &self,
        route: &LiveRoute,
        need: Need,
        key: Result<Option<Key>, KeyProblem>,
        request: Request<B>,
    ) -> impl Future<Output = Result<Admitted<B>, Rejected>> + Send
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let policy = route.policy();
        let (parts, body) = request.into_parts();
        async move {
            let known = match key {
                Err(problem) => Err(problem.into()),
                Ok(None) if !looks_into_body(policy) => Err(Rejection::key_missing(policy)),
                // Whether it needs an identity is known once its key is.
                Ok(None) => Ok(None),
                Ok(Some(key)) => self.scope(&parts, route).await.map(|scope| Some((key, scope))),
            };
            let known = match known {
                Ok(known) => known,
                Err(why) => {
                    return Err(Box::pin(Rejected::drain(why, route, &parts.headers, body)).await);
                }
            };
            let max = policy.max_request_body;
            let within = Some(policy.request_body_timeout);
            let mut body = match read(body, max, within, &self.budget).await {
                Reading::Whole(body) => body,
                // The unread part may have a key, also where none is required.
                Reading::TooLarge(..) => return Err(Rejection::BodyTooLarge { max }.into()),
                Reading::Broken(_) => return Err(Rejection::BodyBroken.into()),
                Reading::Late => return Err(Rejection::BodyTimedOut.into()),
                Reading::OverBudget(..) => return Err(Rejection::BodyOverBudget.into()),
            };
            let bytes = body.whole();
            let in_headers = known.is_some();
            let (key, (scope, quota)) = match known {
                Some(known) => known,
                None => match key_in_body(&parts.headers, bytes, policy) {
                    Ok(Some(key)) => {
                        (key, self.scope(&parts, route).await.map_err(Rejected::drained)?)
                    }
                    Ok(None) if need == Need::Required => {
                        return Err(Rejected::drained(Rejection::key_missing(policy)));
                    }
                    Ok(None) => {
                        let body = RequestBody::read(body);
                        return Ok(Admitted::Pass(Request::from_parts(parts, body)));
                    }
                    Err(problem) => return Err(Rejected::drained(problem)),
                },
            };
            let fingerprint = self.budget.fingerprint(&parts, bytes, route);
            let fingerprint = fingerprint.map_err(Rejected::drained)?;
            let id = RecordId::new(&self.namespace, &scope, &key);
            let mut request = Request::from_parts(parts, RequestBody::read(body));
            // The upstream gets the key in the usual header, from whichever source.
            if (!in_headers || !request.headers().contains_key(headers::IDEMPOTENCY_KEY))
                && let Ok(value) = HeaderValue::try_from(key.to_header())
            {
                request.headers_mut().insert(headers::IDEMPOTENCY_KEY, value);
            }
            Ok(Admitted::Ready(Ready { request, id, fingerprint, quota }))
        }
    }

    async fn scope(
        &self,
        parts: &Parts,
        route: &LiveRoute,
    ) -> Result<(Scope, Option<Quota>), Rejection> {
        let (what, policy) = (route.what(parts.uri.path()), route.policy());
        let token = token(&parts.headers, policy, self.verifier.as_deref()).await;
        let known = token.and_then(|token| {
            let identity = identity_of(parts, &what, policy, &token)?;
            Ok((identity.scope(), identity.quota(route.name(), policy.scope_limits)))
        });
        known.map_err(|missing| {
            route.scope_missing(&missing);
            missing.into()
        })
    }
}

impl Default for Admission {
    fn default() -> Self {
        Self { namespace: "http".into(), budget: BodyBudget::new(BUFFERED_MAX), verifier: None }
    }
}
