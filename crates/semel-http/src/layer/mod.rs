//! The tower layers: [`SemelLayer`], under which the engine claims, and [`KeyedLayer`], under which
//! the handler does.

mod admit;
mod answer;
mod arrival;
mod body;
mod execute;
mod future;
mod keep;
mod keyed;
mod pieces;
mod protect;
mod reading;
mod recorded;
mod refused;
mod room;
mod shadow;

pub use body::{ReplyBody, RequestBody, ResponseBody};
pub use future::ResponseFuture;
pub use keep::OutcomeKind;
pub use keyed::{Keyed, KeyedLayer, KeyedService};
pub use reading::TimedOut;

use std::error::Error;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use semel_core::Timestamp;
use semel_engine::Engine;
use semel_store::{Clock, Store};
use tower_layer::Layer;
use tower_service::Service;

use self::admit::Admission;
use self::arrival::{Arrived, arrive};
use self::room::Room;
use crate::policy::Mode;
use crate::routes::{Route, Routes};

/// Protects the services it is put around.
///
/// The inner service is called in a task of its own: it runs to its end and its outcome is settled
/// even if the client hangs up (I9). It must be `Clone`, as services of axum, hyper and tonic are.
///
/// A handler may overrule what its status says about the outcome by putting an [`OutcomeKind`] into
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
#[derive(Debug)]
pub struct SemelLayer<S> {
    shared: Arc<Shared<S>>,
}

/// A service under protection; made by [`SemelLayer`].
#[derive(Debug)]
pub struct Semel<S, I> {
    shared: Arc<Shared<S>>,
    inner: I,
}

/// The route that a request came under, as an extension of the request, unless none matched.
#[derive(Clone, Debug)]
pub struct MatchedRoute(pub Arc<Route>);

#[derive(Debug)]
pub(crate) struct Shared<S> {
    engine: Engine<S>,
    routes: Routes,
    admission: Admission,
    clock: StoreClock,
}

/// The clock of the store, if it is known here.
#[derive(Clone, Debug)]
pub(crate) struct StoreClock(Option<Arc<dyn Clock>>);

/// Any error that a body may have.
pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

// === impl SemelLayer ===

impl<S: Store> SemelLayer<S> {
    /// A layer over an engine, for these routes.
    pub fn new(engine: Engine<S>, routes: Routes) -> Self {
        let (admission, clock) = (Admission::default(), StoreClock::UNKNOWN);
        Self { shared: Arc::new(Shared { engine, routes, admission, clock }) }
    }

    /// The same with a namespace of its own: applications that share a store do not share records.
    #[must_use]
    pub fn namespace(self, namespace: &str) -> Self {
        self.with(|admission| admission.namespace = namespace.into())
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
        self.with(|admission| admission.room = Room::new(bytes))
    }

    /// The same knowing the clock of its store: the one that the store was given, or a
    /// [`ServerClock`](semel_store::ServerClock) that follows its server's. Without it, a duplicate of
    /// work whose process died cannot be told when its lease ends: its `Retry-After` is how long the
    /// work usually takes.
    #[must_use]
    pub fn clock(self, clock: impl Clock) -> Self {
        let Shared { engine, routes, admission, .. } = &*self.shared;
        let (engine, routes, admission) = (engine.clone(), routes.clone(), admission.clone());
        let clock = StoreClock(Some(Arc::new(clock)));
        Self { shared: Arc::new(Shared { engine, routes, admission, clock }) }
    }

    fn with(self, change: impl FnOnce(&mut Admission)) -> Self {
        let Shared { engine, routes, admission, clock } = &*self.shared;
        let (engine, routes, clock) = (engine.clone(), routes.clone(), clock.clone());
        let mut admission = admission.clone();
        change(&mut admission);
        Self { shared: Arc::new(Shared { engine, routes, admission, clock }) }
    }
}

impl<S> Clone for SemelLayer<S> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<S, I> Layer<I> for SemelLayer<S> {
    type Service = Semel<S, I>;

    fn layer(&self, inner: I) -> Self::Service {
        Semel { shared: self.shared.clone(), inner }
    }
}

// === impl Semel ===

impl<S, I: Clone> Clone for Semel<S, I> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), inner: self.inner.clone() }
    }
}

impl<S, I, B, R> Service<Request<B>> for Semel<S, I>
where
    S: Store,
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
        let arrival = match arrive(&self.shared.routes, request) {
            // The cheap way first: nothing is boxed for what is passed on.
            Arrived::Pass(request) => return ResponseFuture::passed(self.inner.call(request)),
            Arrived::Admit(arrival) => arrival,
        };
        let (shared, inner) = (self.shared.clone(), take_ready(&mut self.inner));
        match arrival.route.policy().mode {
            Mode::Shadow => ResponseFuture::protected(shadow::watch(shared, inner, arrival)),
            Mode::Protect | Mode::Off => {
                ResponseFuture::protected(protect::protect(shared, inner, arrival))
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

/// The inner service that was asked whether it is ready is the one to call.
fn take_ready<I: Clone>(inner: &mut I) -> I {
    let ready = inner.clone();
    std::mem::replace(inner, ready)
}
