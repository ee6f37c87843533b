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
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{self, HeaderValue};
use http::{Request, Response, Version};
use http_body::Body as _;
use semel_http::problem::{Code, Problem};
use semel_http::{MatchedRoute, OutcomeKind};
use tokio::time::{Instant, timeout_at};
use tower_service::Service;

use self::body::TimeLimit;
use self::exchange::{Failure, exchange};
use self::pool::Pool;
use self::upgrade::Upgrade;
use self::upstream::{Body, Upstream};

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
        let deadline = Instant::now() + limit;
        let rest = if request.body().was_read() {
            TimeLimit::Until(deadline)
        } else {
            TimeLimit::EachPiece(self.body_idle_timeout)
        };
        match timeout_at(deadline, exchange(&self.upstream, self.pool, request)).await {
            Ok(Ok((mut response, mut wire))) => {
                wire.note_keep_alive(response.headers());
                forward::clean(response.headers_mut());
                response.map(|body| UpstreamBody::new(body, wire, self.pool, rest))
            }
            Ok(Err(failure)) => failure.into_response(),
            Err(_) => too_late(limit),
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

// === impl Failure ===

impl Failure {
    fn into_response(self) -> Response<UpstreamBody> {
        let (kind, detail) = match self {
            Self::NotSent(error) => {
                tracing::warn!(%error, "the upstream cannot be reached");
                (OutcomeKind::FailedForNow, "the upstream cannot be reached; nothing was executed")
            }
            Self::Lost(error) => {
                tracing::warn!(%error, "the upstream broke off");
                (
                    OutcomeKind::Unknown,
                    "the connection to the upstream was lost after the request went out; it may or \
                     may not have been executed",
                )
            }
        };
        answer(Problem::new(Code::UpstreamUnreachable, detail), kind)
    }
}

fn too_late(limit: Duration) -> Response<UpstreamBody> {
    tracing::warn!(?limit, "the upstream took too long");
    let detail = format!(
        "the upstream did not answer within {limit:?}; the request may or may not have been executed"
    );
    answer(Problem::new(Code::UpstreamTimeout, detail), OutcomeKind::Unknown)
}

fn refused(detail: &str) -> Response<UpstreamBody> {
    answer(Problem::new(Code::RequestRefused, detail), OutcomeKind::FailedForNow)
}

fn answer(problem: Problem, kind: OutcomeKind) -> Response<UpstreamBody> {
    let mut response = problem.into_response();
    response.extensions_mut().insert(kind);
    response
}
