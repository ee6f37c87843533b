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

use super::body_budget::{BodyBudget, OverBudget};
use super::reading::{Reading, read};
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
    ) -> impl Future<Output = Result<Admitted<B>, Rejection>> + Send
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let policy = route.policy();
        let (parts, body) = request.into_parts();
        async move {
            let early = match &key {
                Err(problem) => Err(Rejection::key_invalid(problem)),
                Ok(None) if !looks_into_body(policy) => Err(Rejection::key_missing(policy)),
                // Whether it needs an identity is known once its key is.
                Ok(None) => Ok(None),
                Ok(Some(_)) => self.scope(&parts, route).await.map(Some),
            };
            let scope_known = match early {
                Ok(known) => known,
                Err(refused) => {
                    return Err(Box::pin(refused.drain(route, &parts.headers, body)).await);
                }
            };
            let limit = policy.max_request_body;
            let within = Some(policy.request_body_timeout);
            let mut body = match read(body, limit, within, &self.budget).await {
                Reading::Whole(body) => body,
                // The unread part may have a key, also where none is required.
                Reading::TooLarge(..) => return Err(Rejection::too_large(limit)),
                Reading::Broken(_) => return Err(Rejection::broken()),
                Reading::Late => return Err(Rejection::late()),
                Reading::OverBudget(..) => return Err(Rejection::over_budget()),
            };
            let bytes = body.whole();
            let in_headers = matches!(key, Ok(Some(_)));
            let key = key.and_then(|key| {
                key.map_or_else(|| key_in_body(&parts.headers, bytes, policy), |key| Ok(Some(key)))
            });
            let key = match key {
                Ok(Some(key)) => key,
                Ok(None) if need == Need::Required => {
                    return Err(Rejection::key_missing(policy).drained());
                }
                Ok(None) => {
                    return Ok(Admitted::Pass(Request::from_parts(parts, RequestBody::read(body))));
                }
                Err(problem) => return Err(Rejection::key_invalid(&problem).drained()),
            };
            let (scope, quota) = match scope_known {
                Some(known) => known,
                None => self.scope(&parts, route).await.map_err(Rejection::drained)?,
            };
            let fingerprint = match self.budget.fingerprint(&parts, bytes, route) {
                Ok(fingerprint) => fingerprint,
                Err(OverBudget::Now) => return Err(Rejection::over_budget().drained()),
                Err(OverBudget::Always { max }) => return Err(Rejection::too_large(max).drained()),
            };
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
            Rejection::scope_missing(&missing)
        })
    }
}

impl Default for Admission {
    fn default() -> Self {
        Self { namespace: "http".into(), budget: BodyBudget::new(BUFFERED_MAX), verifier: None }
    }
}
