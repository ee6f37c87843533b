//! Passing requests on to the upstream, and replies back.

mod body;
mod connect_window;
mod context;
mod exchange;
pub(crate) mod forward;
mod latency;
mod lines;
mod obtain;
pub(crate) mod permits;
pub(crate) mod pool;
pub(crate) mod upgrade;
pub(crate) mod upstream;

pub(crate) use body::UpstreamBody;
pub(crate) use context::RequestContext;
pub(crate) use lines::Lines;

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{self, HeaderValue};
use http::{Request, Response, StatusCode, Version};
use http_body::Body as _;
use semel_http::MatchedRoute;
use semel_http::headers::IDEMPOTENCY_FENCE;
use tokio::time::Instant;
use tower_service::Service;

use self::body::TimeLimits;
use self::exchange::{ExchangeTimeouts, exchange};
use self::latency::RequestClass;
use self::pool::Pool;
use self::upstream::{Body, Upstream};
use crate::failure::Failure;

/// The service beneath the layer. It never fails, but may answer in place of the upstream.
pub(crate) struct Proxy {
    pub(crate) shared: Arc<Shared>,
    /// The context of the request that it is called with; a clone has none.
    pub(crate) context: Option<RequestContext>,
}

pub(crate) struct Shared {
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) pool: Pool,
    /// For requests that no route matched.
    pub(crate) upstream_timeout: Duration,
    /// The longest pause in a reply that is streamed.
    pub(crate) body_idle_timeout: Duration,
    pub(crate) lines: Lines,
}

// === impl Proxy ===

impl Proxy {
    pub(crate) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared, context: None }
    }
}

impl Clone for Proxy {
    fn clone(&self) -> Self {
        Self::new(self.shared.clone())
    }
}

impl Service<Request<Body>> for Proxy {
    type Response = Response<UpstreamBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (shared, context) = (self.shared.clone(), self.context.take());
        Box::pin(async move { Ok(shared.pass(request, context).await) })
    }
}

// === impl Shared ===

impl Shared {
    async fn pass(
        &self,
        mut request: Request<Body>,
        context: Option<RequestContext>,
    ) -> Response<UpstreamBody> {
        let route = request.extensions_mut().remove::<MatchedRoute>().map(|matched| matched.0);
        let class = RequestClass::of(route.as_ref(), request.method().is_safe());
        let limit = route.map_or(self.upstream_timeout, |route| route.policy().upstream_timeout);
        if !self.address(&mut request) {
            return Failure::OutsideBase.response(true);
        }
        let (client, in_work) = match context {
            Some(RequestContext { activity, upgrade: Some(upgrade), .. }) => {
                return upgrade.pass(self, request, limit, activity).await;
            }
            Some(RequestContext { activity, in_work, .. }) => (Some(activity), in_work),
            None => (None, None),
        };
        let is_retry_safe = is_retry_safe(&request);
        // A body that the layer has read takes none of the upstream's time.
        let client = client.filter(|_| request.body().unread().is_some());
        let timeouts = ExchangeTimeouts { class, limit, deadline: Instant::now() + limit, client };
        match exchange(&self.upstream, self.pool, request, &timeouts).await {
            Ok((response, _)) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
                self.failed(&Failure::Switched, is_retry_safe)
            }
            Ok((mut response, mut connection)) => {
                connection.note_keep_alive(response.headers());
                forward::clean(response.headers_mut());
                // Not the upstream's: an HTTP/1.0 response would close the client's connection.
                *response.version_mut() = Version::HTTP_11;
                let (whole, piece) = (Some(timeouts.deadline), self.body_idle_timeout);
                let limits = TimeLimits { whole, piece };
                // The reply's connection is in use until the reply has been read, and the request counts as long.
                response.map(|body| UpstreamBody::new(body, connection, self.pool, limits, in_work))
            }
            Err(failure) => self.failed(&failure, is_retry_safe),
        }
    }

    fn failed(&self, failure: &Failure, is_retry_safe: bool) -> Response<UpstreamBody> {
        self.lines.log(failure);
        failure.response(is_retry_safe)
    }

    /// Rewrites target and `Host` for the upstream. Returns `false` if the path leads out of the base path.
    fn address(&self, request: &mut Request<Body>) -> bool {
        let Some(target) = forward::target(request.uri(), &self.upstream.base) else {
            return false;
        };
        *request.uri_mut() = target;
        *request.version_mut() = Version::HTTP_11;
        let headers = request.headers_mut();
        forward::end(headers);
        headers.insert(header::HOST, self.upstream.authority.clone());
        // hyper sends `100 Continue` when the body is polled.
        headers.remove(header::EXPECT);
        // hyper would leave out the body of a GET whose length is not known.
        if !request.body().is_end_stream() && request.body().size_hint().exact().is_none() {
            let headers = request.headers_mut();
            headers.insert(header::TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        true
    }
}

/// Whether the client may send the request again even if it may have been executed: if it is protected, and so has a
/// fence, or if its method is safe.
fn is_retry_safe(request: &Request<Body>) -> bool {
    request.method().is_safe() || request.headers().contains_key(IDEMPOTENCY_FENCE)
}
