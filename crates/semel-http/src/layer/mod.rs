//! The tower layers: [`SemelLayer`], where the engine claims, and [`IdempotentLayer`], where the
//! handler does.

mod admit;
mod answer;
mod body;
mod body_budget;
mod chunks;
mod execute;
mod future;
mod idempotent;
mod outcome;
mod protect;
mod reading;
mod rejected;
mod rejection;
mod replay;
mod routing;
mod shadow;

pub use body::{ReplyBody, RequestBody, ResponseBody};
pub use future::ResponseFuture;
pub use idempotent::{IdempotentLayer, IdempotentRequest, IdempotentService};
pub use outcome::OutcomeKind;
pub use reading::TimedOut;

use std::error::Error;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use semel_core::Timestamp;
use semel_engine::Engine;
use semel_store::Clock;
use tower_layer::Layer;
use tower_service::Service;

use self::admit::Admission;
use self::body_budget::BodyBudget;
use self::routing::{Routing, route_request};
use crate::observe::{LiveRoutes, RouteObserver};
use crate::policy::Mode;
use crate::routes::{Route, Routes};
use crate::token::VerifyToken;

/// Protects the services it is put around.
///
/// The inner service is called in a task of its own: it runs to its end and its outcome is settled
/// even if the client hangs up (I9). It must be `Clone`, as services of axum, hyper and tonic are.
///
/// A handler may override the outcome of its status by putting an [`OutcomeKind`] into
/// the extensions of its response. It finds the fence of its execution in the request's header
/// `Idempotency-Fence`.
///
/// ```
/// use http::{Request, Response};
/// use http_body_util::{BodyExt as _, Full};
/// use semel_engine::Engine;
/// use semel_http::{RequestBody, Routes, SemelLayer};
/// use semel_store::MemoryStore;
/// use tower_layer::Layer as _;
/// use tower_service::Service as _;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
/// # type Body = Full<bytes::Bytes>;
/// #[derive(Clone)]
/// struct Charge;
/// # impl tower_service::Service<Request<RequestBody<Body>>> for Charge {
/// #     type Response = Response<Body>;
/// #     type Error = std::convert::Infallible;
/// #     type Future = std::future::Ready<Result<Self::Response, Self::Error>>;
/// #     fn poll_ready(&mut self, _: &mut std::task::Context<'_>)
/// #         -> std::task::Poll<Result<(), Self::Error>> { std::task::Poll::Ready(Ok(())) }
/// #     fn call(&mut self, _: Request<RequestBody<Body>>) -> Self::Future {
/// #         std::future::ready(Ok(Response::new(Full::from("charged"))))
/// #     }
/// # }
/// // ... a service that charges a card.
///
/// let layer = SemelLayer::new(Engine::new(MemoryStore::new()), Routes::default());
/// let mut service = layer.layer(Charge);
/// let request = || {
///     Request::post("/v1/charges").header("idempotency-key", "order-1").body(Body::from("100"))
/// };
/// let first = service.call(request()?).await?;
/// let retry = service.call(request()?).await?;
/// assert_eq!(retry.headers()["x-idempotency-replayed"], "true");
/// assert_eq!(retry.into_body().collect().await?.to_bytes(), "charged");
/// # drop(first);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SemelLayer {
    shared: Arc<Shared>,
}

/// A service under protection; made by [`SemelLayer`].
#[derive(Clone, Debug)]
pub struct Semel<I> {
    shared: Arc<Shared>,
    inner: I,
}

/// The route that matched a request, as an extension of the request, unless none matched.
#[derive(Clone, Debug)]
pub struct MatchedRoute(pub Arc<Route>);

#[derive(Clone, Debug)]
pub(crate) struct Shared {
    engine: Engine,
    routes: LiveRoutes,
    admission: Admission,
    clock: StoreClock,
    /// The service logs the start of an execution.
    service_logs_start: bool,
}

/// The clock of the store, if it is known here.
#[derive(Clone, Debug)]
pub(crate) struct StoreClock(Option<Arc<dyn Clock>>);

/// Any error that a body may have.
pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

// === impl SemelLayer ===

impl SemelLayer {
    /// A layer over an engine, for these routes.
    pub fn new(engine: Engine, routes: Routes) -> Self {
        let (admission, clock) = (Admission::default(), StoreClock::UNKNOWN);
        let (routes, service_logs_start) = (LiveRoutes::new(routes), false);
        let shared = Shared { engine, routes, admission, clock, service_logs_start };
        Self { shared: Arc::new(shared) }
    }

    /// The same with a namespace of its own: applications that share a store do not share records.
    #[must_use]
    pub fn namespace(self, namespace: &str) -> Self {
        self.with(|shared| shared.admission.namespace = namespace.into())
    }

    /// The same holding at most so many bytes of bodies at once, over all requests: 256 MiB unless
    /// said otherwise. A request or replay beyond that is refused, and a reply beyond it is passed
    /// on without its body being kept.
    ///
    /// A body counts for as long as anything of its bytes is held: also by a server whose client is
    /// slow, and by a handler that keeps the `Bytes` it was given. What is to live longer than the
    /// request should be copied.
    #[must_use]
    pub fn max_buffered(self, bytes: u64) -> Self {
        self.with(|shared| shared.admission.budget = BodyBudget::new(bytes))
    }

    /// The same believing only tokens that were verified: for routes whose scope has `jwt:CLAIM`.
    /// Without a verifier claims are read as they stand, which is for services behind something that
    /// verifies tokens; the preset `payments` refuses them unless
    /// [`jwt_unverified`](crate::RoutePolicyBuilder::jwt_unverified) says otherwise.
    ///
    /// A token that is refused is answered 401 `idempotency_scope_missing`, whatever
    /// `on_missing_scope` says, and nothing is executed. Only requests that come under protection are
    /// looked at: it is no replacement for the service's own check of tokens.
    #[must_use]
    pub fn verifier(self, verifier: Arc<dyn VerifyToken>) -> Self {
        self.with(|shared| shared.admission.verifier = Some(verifier))
    }

    /// The same with the service saying when the work of an execution begins: it takes an
    /// [`ExecutionStart`](crate::ExecutionStart) out of the request's extensions and calls its `log` before anything
    /// takes effect. Without this the start of an execution is logged before the service is called.
    ///
    /// It is for proxies, whose work has not begun while they have no connection. What ends as
    /// [`OutcomeKind::FailedForNow`] before that has no line for its start, and shares one per second for its end, so
    /// that an outage does not write two lines per request.
    #[must_use]
    pub fn service_logs_start(self) -> Self {
        self.with(|shared| shared.service_logs_start = true)
    }

    /// The same knowing the clock of its store: the one that the store was given, or a
    /// [`ServerClock`](semel_store::ServerClock) that follows its server's. Without it, a duplicate of
    /// work whose process died does not get the end of its lease: its `Retry-After` is the usual
    /// latency of the work.
    #[must_use]
    pub fn clock(self, clock: impl Clock) -> Self {
        self.with(|shared| shared.clock = StoreClock(Some(Arc::new(clock))))
    }

    /// The same reporting to the observer that `observe` makes for each route, instead of to
    /// [`RouteMetrics`](crate::RouteMetrics). It is called for all routes when the layer is first put around a
    /// service.
    #[must_use]
    pub fn observer(
        self,
        observe: impl Fn(&Route) -> Arc<dyn RouteObserver> + Send + Sync + 'static,
    ) -> Self {
        self.with(|shared| shared.routes.observe(observe))
    }

    fn with(self, change: impl FnOnce(&mut Shared)) -> Self {
        let mut shared = Arc::unwrap_or_clone(self.shared);
        change(&mut shared);
        Self { shared: Arc::new(shared) }
    }
}

impl<I> Layer<I> for SemelLayer {
    type Service = Semel<I>;

    fn layer(&self, inner: I) -> Self::Service {
        self.shared.routes.live();
        Semel { shared: self.shared.clone(), inner }
    }
}

// === impl Semel ===

impl<I> Semel<I> {
    /// The inner service. The next request is given to it or dropped with it, never to a clone of it: so it may
    /// hold what belongs to one request, such as its connection.
    pub const fn inner_mut(&mut self) -> &mut I {
        &mut self.inner
    }
}

impl<I, B, R> Service<Request<B>> for Semel<I>
where
    I: Service<Request<RequestBody<B>>, Response = Response<R>> + Clone + Send + 'static,
    I::Error: Send + 'static,
    I::Future: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody<R>>;
    type Error = I::Error;
    type Future = ResponseFuture<I::Future, R, I::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), I::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let routed = match route_request(&self.shared.routes, request) {
            // Nothing is boxed for requests that are passed on.
            Routing::Pass(request) => return ResponseFuture::passed(self.inner.call(request)),
            Routing::Admit(routed) => routed,
            Routing::Refuse { route, why, version } => {
                let answer = std::future::ready(Ok(why.answer(&route, version)));
                return ResponseFuture::protected(answer);
            }
        };
        let (shared, inner) = (self.shared.clone(), take_ready(&mut self.inner));
        match routed.route.policy().mode {
            Mode::Shadow => ResponseFuture::protected(shadow::watch(shared, inner, routed)),
            Mode::Protect | Mode::Off => {
                ResponseFuture::protected(protect::protect(shared, inner, routed))
            }
        }
    }
}

// === impl StoreClock ===

impl StoreClock {
    const UNKNOWN: Self = Self(None);

    fn now(&self) -> Option<Timestamp> {
        self.0.as_ref().map(Clock::now)
    }
}

/// Takes the service that was polled ready, and leaves a clone.
fn take_ready<I: Clone>(inner: &mut I) -> I {
    let ready = inner.clone();
    std::mem::replace(inner, ready)
}
