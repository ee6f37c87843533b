//! The tower layer.

mod answer;
mod body;
mod execute;
mod future;
mod pieces;
mod protect;
mod reading;
mod room;
mod shadow;

pub use body::{RequestBody, ResponseBody};
pub use execute::OutcomeKind;
pub use future::ResponseFuture;
pub use reading::TimedOut;

use std::error::Error;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use semel_engine::Engine;
use semel_store::Store;
use tower_layer::Layer;
use tower_service::Service;

use self::room::Room;
use crate::extract::{key_in_headers, looks_into_body};
use crate::headers;
use crate::policy::{Mode, Need};
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
    namespace: Box<str>,
    room: Arc<Room>,
}

/// How much of bodies is held by default.
const BUFFERED_MAX: u64 = 256 << 20;

/// Any error that a body may have.
pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

// === impl SemelLayer ===

impl<S: Store> SemelLayer<S> {
    /// A layer over an engine, for these routes.
    pub fn new(engine: Engine<S>, routes: Routes) -> Self {
        let room = Room::new(BUFFERED_MAX);
        Self { shared: Arc::new(Shared { engine, routes, namespace: "http".into(), room }) }
    }

    /// The same with a namespace of its own: applications that share a store do not share records.
    #[must_use]
    pub fn namespace(self, namespace: &str) -> Self {
        self.with(|shared| shared.namespace = namespace.into())
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
        self.with(|shared| shared.room = Room::new(bytes))
    }

    fn with(self, change: impl FnOnce(&mut Shared<S>)) -> Self {
        let Shared { engine, routes, namespace, room } = &*self.shared;
        let (engine, routes) = (engine.clone(), routes.clone());
        let mut shared =
            Shared { engine, routes, namespace: namespace.clone(), room: room.clone() };
        change(&mut shared);
        Self { shared: Arc::new(shared) }
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

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        // Only an execution has a fence: a client must not make one up.
        request.headers_mut().remove(headers::IDEMPOTENCY_FENCE);
        let route = self.shared.routes.find(request.method(), request.uri().path());
        let policy = route.policy();
        let need = policy.need(request.method());
        // The cheap way first: nothing is boxed for what is passed on.
        if need == Need::Pass {
            let request = tagged(request, route).map(RequestBody::passed);
            return ResponseFuture::passed(self.inner.call(request));
        }
        let key = key_in_headers(request.headers(), policy);
        if need == Need::Optional && key == Ok(None) && !looks_into_body(policy) {
            let request = tagged(request, route).map(RequestBody::passed);
            return ResponseFuture::passed(self.inner.call(request));
        }
        let (route, request) = (route.clone(), tagged(request, route));
        // The inner service that was asked whether it is ready is the one to call.
        let ready = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, ready);
        let arrival = protect::Arrival { shared: self.shared.clone(), route, need, key, inner };
        match arrival.route.policy().mode {
            Mode::Shadow => ResponseFuture::protected(arrival.watch(request)),
            Mode::Protect | Mode::Off => ResponseFuture::protected(arrival.protect(request)),
        }
    }
}

fn tagged<B>(mut request: Request<B>, route: &Arc<Route>) -> Request<B> {
    if route.is_matched() {
        request.extensions_mut().insert(MatchedRoute(route.clone()));
    }
    request
}
