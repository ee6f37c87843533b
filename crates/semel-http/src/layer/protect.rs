//! A request on its way to the engine.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Request, Response, Version};
use http_body::Body;
use semel_core::{Key, RecordId, Scope};
use semel_engine::EngineError;
use semel_store::Store;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tower_service::Service;

use super::answer::Answered;
use super::execute::{Job, call};
use super::reading::{Reading, drain, read};
use super::{BoxError, RequestBody, ResponseBody, Shared};
use crate::extract::{KeyProblem, ScopeMissing, key_in_body, looks_into_body, scope_of};
use crate::fingerprint::fingerprint_of;
use crate::headers;
use crate::observe::Decided;
use crate::policy::{Need, RoutePolicy};
use crate::problem::{Code, Problem};
use crate::routes::Route;

/// A request that may have to be protected, and what is known about it.
pub(crate) struct Arrival<S, I> {
    pub(crate) shared: Arc<Shared<S>>,
    pub(crate) route: Arc<Route>,
    pub(crate) need: Need,
    /// The key in its headers.
    pub(crate) key: Result<Option<Key>, KeyProblem>,
    pub(crate) inner: I,
}

/// A request whose body has been read, with its key and scope.
pub(crate) struct Ready<B> {
    pub(crate) request: Request<RequestBody<B>>,
    pub(crate) id: RecordId,
    pub(crate) fingerprint: semel_core::Fingerprint,
}

/// Why a request does not get as far as a claim.
pub(crate) struct Refused {
    decided: Decided,
    problem: Problem,
    /// Can another request follow on the same connection?
    drained: bool,
}

/// What is to be done with a request whose body has been read.
pub(crate) enum Admitted<B> {
    Ready(Ready<B>),
    /// It has no key and needs none.
    Pass(Request<RequestBody<B>>),
}

// === impl Arrival ===

impl<S, I> Arrival<S, I>
where
    S: Store,
{
    /// Takes the request to the engine, and its answer to the client.
    pub(crate) async fn protect<B, R>(
        self,
        request: Request<B>,
    ) -> Result<Response<ResponseBody<R>>, I::Error>
    where
        I: Service<Request<RequestBody<B>>, Response = Response<R>> + Clone + Send + 'static,
        I::Error: Send + 'static,
        I::Future: Send + 'static,
        B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
        R: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    {
        let version = request.version();
        let Self { shared, route, need, key, inner } = self;
        let ready = match admit(&shared, &route, need, key, request).await {
            Ok(Admitted::Ready(ready)) => ready,
            Ok(Admitted::Pass(request)) => {
                return Ok(call(inner, request).await?.map(ResponseBody::passed));
            }
            Err(refused) => return Ok(refused.answer(&route, version)),
        };
        // What the client took to send its body is not ours.
        let began = Instant::now();
        let Ready { request, id, fingerprint } = ready;
        let attempt = shared.engine.attempt(id, fingerprint);
        let (report, live) = oneshot::channel();
        let room = shared.room.clone();
        let job = Job { inner, request, route: route.clone(), room, report };
        let policy = &route.policy().core;
        let answer = shared.engine.once(attempt, policy, |execution| job.execute(execution)).await;
        let answered = Answered { route, id, began, version, room: &shared.room };
        answered.response(answer, live)
    }
}

/// Reads what a request says about itself, and its body.
pub(crate) async fn admit<S, B>(
    shared: &Shared<S>,
    route: &Route,
    need: Need,
    key: Result<Option<Key>, KeyProblem>,
    request: Request<B>,
) -> Result<Admitted<B>, Refused>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let policy = route.policy();
    let (parts, body) = request.into_parts();
    let early = match &key {
        Err(problem) => Err(Refused::key_invalid(problem)),
        Ok(None) if !looks_into_body(policy) => Err(Refused::key_missing(policy)),
        // Whether it needs an identity is known once its key is.
        Ok(None) => Ok(None),
        Ok(Some(_)) => scope(&parts, route).map(Some),
    };
    let scope_known = match early {
        Ok(scope) => scope,
        Err(refused) => return Err(refused.drain(route, &parts.headers, body).await),
    };
    let limit = policy.max_request_body;
    let mut body = match read(body, limit, Some(policy.request_body_timeout), &shared.room).await {
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
    let key =
        key.and_then(|key| key.map_or_else(|| key_in_body(bytes, policy), |key| Ok(Some(key))));
    let key = match key {
        Ok(Some(key)) => key,
        Ok(None) if need == Need::Required => return Err(Refused::key_missing(policy).drained()),
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
    let id = RecordId::new(&shared.namespace, &scope, &key);
    let mut request = Request::from_parts(parts, RequestBody::read(body));
    // The upstream gets the key in the usual place, wherever it came from.
    if (!in_headers || !request.headers().contains_key(headers::IDEMPOTENCY_KEY))
        && let Ok(value) = HeaderValue::try_from(key.to_header())
    {
        request.headers_mut().insert(headers::IDEMPOTENCY_KEY, value);
    }
    Ok(Admitted::Ready(Ready { request, id, fingerprint }))
}

fn scope(parts: &Parts, route: &Route) -> Result<Scope, Refused> {
    scope_of(parts, &route.what(parts.uri.path()), route.policy())
        .map_err(|missing| Refused::scope_missing(&missing))
}

// === impl Refused ===

impl Refused {
    fn new(decided: Decided, code: Code, detail: impl Into<Box<str>>) -> Self {
        Self { decided, problem: Problem::new(code, detail), drained: false }
    }

    fn key_missing(policy: &RoutePolicy) -> Self {
        let sources: Vec<_> = policy.key_from.iter().map(ToString::to_string).collect();
        let detail = format!(
            "this request needs an idempotency key ({}); send a value of your own for each \
             operation, such as a UUID, and the same value when you retry",
            sources.join(" or ")
        );
        Self::new(Decided::KeyMissing, Code::KeyMissing, detail)
    }

    fn scope_missing(missing: &ScopeMissing) -> Self {
        Self::new(Decided::ScopeMissing, Code::ScopeMissing, missing.to_string())
    }

    fn key_invalid(problem: &KeyProblem) -> Self {
        Self::new(Decided::KeyInvalid, Code::KeyInvalid, problem.to_string())
    }

    fn too_large(limit: u64) -> Self {
        let detail = format!("the body is larger than {limit} bytes; nothing was executed");
        Self::new(Decided::BodyTooLarge, Code::RequestBodyTooLarge, detail)
    }

    fn broken() -> Self {
        let detail = "the body ended before it was complete; nothing was executed";
        Self::new(Decided::BodyBroken, Code::RequestBodyBroken, detail)
    }

    fn late() -> Self {
        let detail = "the body took too long to arrive; nothing was executed";
        Self::new(Decided::BodyBroken, Code::RequestTimeout, detail)
    }

    fn no_room() -> Self {
        let detail = "too many bodies are being received; nothing was executed";
        let mut refused = Self::new(Decided::Refused, Code::TooBusy, detail);
        refused.problem = refused.problem.with_retry_after(1);
        refused
    }

    /// The body was read to its end already.
    const fn drained(mut self) -> Self {
        self.drained = true;
        self
    }

    /// Reads the body to its end, if it is short: the next request on the connection must never be
    /// parsed out of it.
    async fn drain<B>(mut self, route: &Route, headers: &HeaderMap, body: B) -> Self
    where
        B: Body<Data = Bytes>,
    {
        let policy = route.policy();
        // Who waits for permission to send a body is better told not to.
        self.drained = !headers.contains_key(header::EXPECT)
            && drain(body, policy.max_request_body, policy.request_body_timeout).await;
        self
    }

    pub(crate) fn answer<R>(self, route: &Route, version: Version) -> Response<ResponseBody<R>> {
        let mut response = self.problem.into_response();
        if self.decided == Decided::ScopeMissing {
            // A 401 must name a way to identify oneself (RFC 9110, 15.5.2).
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
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

/// What the engine could not do, as a problem.
pub(crate) fn refused_by_engine(error: &EngineError) -> (Decided, Problem) {
    let (decided, code, detail): (_, _, Cow<'static, str>) = match error {
        EngineError::Store(_) => (
            Decided::StoreUnavailable,
            Code::StoreUnavailable,
            "the store of idempotency records cannot be asked; nothing was executed".into(),
        ),
        EngineError::ShuttingDown => (
            Decided::Refused,
            Code::ShuttingDown,
            "the server is going down; nothing was executed".into(),
        ),
        EngineError::TooManyExecutions { max } => (
            Decided::Refused,
            Code::TooBusy,
            format!("{max} requests are running already; nothing was executed").into(),
        ),
        _ => (
            Decided::Unknown,
            Code::ExecutionInterrupted,
            "the execution was stopped; retry with the same key to learn its outcome".into(),
        ),
    };
    (decided, Problem::new(code, detail.into_owned()).with_retry_after(1))
}
