//! What a request must have before anything is claimed for it: a key, a scope, and a body that was
//! read. The same for both layers.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http::header::HeaderValue;
use http::request::Parts;
use http_body::Body;
use semel_core::{Fingerprint, Key, RecordId, Scope};

use super::reading::{Reading, read};
use super::refused::Refused;
use super::room::Room;
use super::{BoxError, RequestBody};
use crate::extract::{KeyProblem, key_in_body, looks_into_body, scope_of};
use crate::fingerprint::fingerprint_of;
use crate::headers;
use crate::policy::Need;
use crate::routes::Route;

/// What requests are admitted with.
#[derive(Clone, Debug)]
pub(crate) struct Admission {
    pub(crate) namespace: Box<str>,
    pub(crate) room: Arc<Room>,
}

/// A request whose body has been read, with its key and scope.
pub(crate) struct Ready<B> {
    pub(crate) request: Request<RequestBody<B>>,
    pub(crate) id: RecordId,
    pub(crate) fingerprint: Fingerprint,
}

/// What is to be done with a request whose body has been read.
pub(crate) enum Admitted<B> {
    Ready(Ready<B>),
    /// It has no key and needs none.
    Pass(Request<RequestBody<B>>),
}

/// How much of bodies is held by default.
const BUFFERED_MAX: u64 = 256 << 20;

// === impl Admission ===

impl Admission {
    /// Reads what a request says about itself, and its body.
    pub(crate) fn admit<B>(
        &self,
        route: &Route,
        need: Need,
        key: Result<Option<Key>, KeyProblem>,
        request: Request<B>,
    ) -> impl Future<Output = Result<Admitted<B>, Refused>> + Send
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let policy = route.policy();
        let (parts, body) = request.into_parts();
        async move {
            let early = match &key {
                Err(problem) => Err(Refused::key_invalid(problem)),
                Ok(None) if !looks_into_body(policy) => Err(Refused::key_missing(policy)),
                // Whether it needs an identity is known once its key is.
                Ok(None) => Ok(None),
                Ok(Some(_)) => scope(&parts, route).map(Some),
            };
            let scope_known = match early {
                Ok(scope) => scope,
                Err(refused) => {
                    return Err(Box::pin(refused.drain(route, &parts.headers, body)).await);
                }
            };
            let limit = policy.max_request_body;
            let within = Some(policy.request_body_timeout);
            let mut body = match read(body, limit, within, &self.room).await {
                Reading::Whole(body) => body,
                // It might have had a key further on, but it need not.
                Reading::TooLarge(start, rest) if need == Need::Optional && key == Ok(None) => {
                    return Ok(Admitted::Pass(Request::from_parts(
                        parts,
                        RequestBody::partly(start, rest),
                    )));
                }
                Reading::TooLarge(..) => return Err(Refused::too_large(limit)),
                Reading::Broken(_) => return Err(Refused::broken()),
                Reading::Late => return Err(Refused::late()),
                Reading::NoRoom(..) => return Err(Refused::no_room()),
            };
            let bytes = body.whole();
            let in_headers = matches!(key, Ok(Some(_)));
            let key = key.and_then(|key| {
                key.map_or_else(|| key_in_body(bytes, policy), |key| Ok(Some(key)))
            });
            let key = match key {
                Ok(Some(key)) => key,
                Ok(None) if need == Need::Required => {
                    return Err(Refused::key_missing(policy).drained());
                }
                Ok(None) => {
                    return Ok(Admitted::Pass(Request::from_parts(parts, RequestBody::read(body))));
                }
                Err(problem) => return Err(Refused::key_invalid(&problem).drained()),
            };
            let scope = match scope_known {
                Some(scope) => scope,
                None => scope(&parts, route).map_err(Refused::drained)?,
            };
            let fingerprint = fingerprint_of(&parts, bytes, policy);
            let id = RecordId::new(&self.namespace, &scope, &key);
            let mut request = Request::from_parts(parts, RequestBody::read(body));
            // The upstream gets the key in the usual place, wherever it came from.
            if (!in_headers || !request.headers().contains_key(headers::IDEMPOTENCY_KEY))
                && let Ok(value) = HeaderValue::try_from(key.to_header())
            {
                request.headers_mut().insert(headers::IDEMPOTENCY_KEY, value);
            }
            Ok(Admitted::Ready(Ready { request, id, fingerprint }))
        }
    }
}

impl Default for Admission {
    fn default() -> Self {
        Self { namespace: "http".into(), room: Room::new(BUFFERED_MAX) }
    }
}

fn scope(parts: &Parts, route: &Route) -> Result<Scope, Refused> {
    scope_of(parts, &route.what(parts.uri.path()), route.policy())
        .map_err(|missing| Refused::scope_missing(&missing))
}
