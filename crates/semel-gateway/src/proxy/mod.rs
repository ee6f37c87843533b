//! Passing requests on to the upstream, and replies back.

mod body;
mod exchange;
pub(crate) mod forward;
mod io;
pub(crate) mod pool;
pub(crate) mod upgrade;
pub(crate) mod upstream;

pub(crate) use body::UpstreamBody;
pub use forward::Forwarded;

use std::convert::Infallible;
use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{self, HeaderValue};
use http::{Request, Response, StatusCode, Version};
use http_body::Body as _;
use semel_http::headers::IDEMPOTENCY_FENCE;
use semel_http::problem::{Code, Problem};
use semel_http::{MatchedRoute, OutcomeKind};
use tokio::time::Instant;
use tower_service::Service;

use self::body::TimeLimits;
use self::exchange::{Failure, Patience, exchange};
use self::pool::Pool;
use self::upgrade::Upgrade;
use self::upstream::{Body, Upstream};
use crate::server::ClientError;

/// The service beneath the layer: it never fails, but may answer for the upstream.
#[derive(Clone)]
pub(crate) struct Proxy {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) upstream: Upstream,
    pub(crate) pool: Pool,
    /// For requests that no route matched.
    pub(crate) upstream_timeout: Duration,
    /// The longest pause in a reply that is passed on as it comes.
    pub(crate) body_idle_timeout: Duration,
}

// === impl Proxy ===

impl Service<Request<Body>> for Proxy {
    type Response = Response<UpstreamBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let shared = self.shared.clone();
        Box::pin(async move { Ok(shared.pass(request).await) })
    }
}

// === impl Shared ===

impl Shared {
    async fn pass(&self, mut request: Request<Body>) -> Response<UpstreamBody> {
        let limit = match request.extensions_mut().remove::<MatchedRoute>() {
            Some(MatchedRoute(route)) => route.policy().upstream_timeout,
            None => self.upstream_timeout,
        };
        if self.address(&mut request).is_err() {
            return refused("the path cannot be passed on");
        }
        if let Some(upgrade) = request.extensions_mut().remove::<Upgrade>() {
            return upgrade.pass(&self.upstream, request, limit).await;
        }
        let is_retry_safe = is_retry_safe(&request);
        let client = request.body().unread().map(|body| body.activity().clone());
        let patience = Patience { limit, deadline: Instant::now() + limit, client };
        match exchange(&self.upstream, self.pool, request, &patience).await {
            Ok((response, _)) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
                switched(is_retry_safe)
            }
            Ok((mut response, mut wire)) => {
                wire.note_keep_alive(response.headers());
                forward::clean(response.headers_mut());
                // Ours, whatever the upstream's is: it is about one connection, and the client's stays open.
                *response.version_mut() = Version::HTTP_11;
                let (whole, piece) = (Some(patience.deadline), self.body_idle_timeout);
                let limits = TimeLimits { whole, piece };
                response.map(|body| UpstreamBody::new(body, wire, self.pool, limits))
            }
            Err(failure) => failure.into_response(limit, is_retry_safe),
        }
    }

    /// Writes the upstream's address on the request.
    fn address(&self, request: &mut Request<Body>) -> Result<(), http::Error> {
        *request.uri_mut() = forward::target(request.uri(), &self.upstream.base)?;
        *request.version_mut() = Version::HTTP_11;
        let headers = request.headers_mut();
        headers.insert(header::HOST, self.upstream.authority.clone());
        // hyper answers it when the body is asked for.
        headers.remove(header::EXPECT);
        // hyper would leave out the body of a GET whose length is not known.
        if !request.body().is_end_stream() && request.body().size_hint().exact().is_none() {
            let headers = request.headers_mut();
            headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        Ok(())
    }
}

/// May the client send it again, even if it may have been executed? It may if the request is
/// protected, which shows by its fence, or only asks.
fn is_retry_safe(request: &Request<Body>) -> bool {
    request.method().is_safe() || request.headers().contains_key(IDEMPOTENCY_FENCE)
}

// === impl Failure ===

impl Failure {
    fn into_response(self, limit: Duration, is_retry_safe: bool) -> Response<UpstreamBody> {
        match self {
            Self::NotSent(error) => {
                tracing::warn!(%error, "the upstream cannot be reached");
                let detail = "the upstream cannot be reached; nothing was executed";
                let problem = Problem::new(Code::UpstreamUnreachable, detail);
                answer(problem, OutcomeKind::FailedForNow)
            }
            Self::Lost(error) => {
                let problem = client_fault(&error).unwrap_or_else(|| {
                    tracing::warn!(%error, "the upstream broke off");
                    let detail = "the connection to the upstream was lost after the request went \
                                  out; it may or may not have been executed";
                    Problem::new(Code::UpstreamUnreachable, detail)
                });
                answer(problem.retry_safe(is_retry_safe), OutcomeKind::Unknown)
            }
            Self::Late => too_late(limit, is_retry_safe),
        }
    }
}

/// Was it the client whose body did not come? The upstream may have got a part of it.
fn client_fault(error: &hyper::Error) -> Option<Problem> {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(fault) = error.downcast_ref::<ClientError<hyper::Error>>() {
            let (code, detail) = match fault {
                ClientError::TimedOut(_) => {
                    (Code::RequestTimeout, "the body took too long to come")
                }
                ClientError::Broken(_) => {
                    (Code::RequestBodyBroken, "the body ended before it was complete")
                }
            };
            return Some(Problem::new(code, detail));
        }
        cause = error.source();
    }
    None
}

fn too_late(limit: Duration, is_retry_safe: bool) -> Response<UpstreamBody> {
    tracing::warn!(?limit, "the upstream took too long");
    let detail = format!(
        "the upstream did not answer within {limit:?}; the request may or may not have been executed"
    );
    let problem = Problem::new(Code::UpstreamTimeout, detail).retry_safe(is_retry_safe);
    answer(problem, OutcomeKind::Unknown)
}

/// The upstream wants to go on with another protocol, and nobody has asked it to.
fn switched(is_retry_safe: bool) -> Response<UpstreamBody> {
    tracing::warn!("the upstream switched protocols unasked");
    let detail = "the upstream answered with a protocol that was not asked for; the request may or \
                  may not have been executed";
    let problem = Problem::new(Code::UpstreamUnreachable, detail).retry_safe(is_retry_safe);
    answer(problem, OutcomeKind::Unknown)
}

fn refused(detail: &str) -> Response<UpstreamBody> {
    answer(Problem::new(Code::RequestRefused, detail), OutcomeKind::FailedForNow)
}

fn answer(problem: Problem, kind: OutcomeKind) -> Response<UpstreamBody> {
    let mut response = problem.into_response();
    response.extensions_mut().insert(kind);
    response
}
