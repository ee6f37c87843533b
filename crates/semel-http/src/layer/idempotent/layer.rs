//! The layer for handlers that claim in their own transaction.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use semel_engine::{Limits, Quotas};
use tokio::sync::Semaphore;
use tower_layer::Layer;
use tower_service::Service;

use crate::layer::admit::Admission;
use crate::layer::body_budget::BodyBudget;
use crate::layer::routing::{Routing, route_request};
use crate::layer::{BoxError, RequestBody, ResponseBody, ResponseFuture, take_ready};
use crate::observe::{Decided, LiveRoutes, RouteObserver};
use crate::policy::Mode;
use crate::routes::{Route, Routes};
use crate::token::VerifyToken;

/// Implements the HTTP contract except the claim, for handlers that claim, execute and settle in one
/// transaction of their own: the *same transaction* mode. It needs no engine and no store.
///
/// A request passes the same stages as in [`SemelLayer`](crate::SemelLayer), and is refused for the
/// same reasons: route, key, scope, body, fingerprint. Then the inner service is called with the body as it
/// was read and an [`IdempotentRequest`] among the request's extensions, which turns the handler's response into
/// an outcome, and what came of the claim into a response. A request that needs no key and brings
/// none is passed on without one.
///
/// # A client that hangs up
///
/// does not end the handler, which runs in a task of its own (I9). The database would roll the
/// transaction back, so nothing would be lost or done by halves; but a client that leaves between
/// the last statement and the commit would undo work that was all but done, and its retry would do
/// it again. Nothing waits for such tasks when the process ends: what is not committed by then is
/// rolled back, and executed by the retry.
///
/// To bound the work of disconnected clients, at most 100,000 requests run at a time; see
/// [`max_executions`](Self::max_executions). Each client may have as many as the
/// `max_executions_per_scope` of the route. Retries that will be replayed count as well while they
/// are in their handlers: only the database can distinguish them. For the same reason
/// `new_keys_per_scope`, `max_records_per_scope` and `max_record_bytes_per_scope` have no effect here.
///
/// # Shadow mode
///
/// cannot look for duplicates without a store. Such a route is passed on without an [`IdempotentRequest`], and
/// counted as `unchecked`.
///
/// [`IdempotentRequest`]: super::IdempotentRequest
///
/// # Example
///
/// ```
/// use std::convert::Infallible;
/// use http::{Request, Response};
/// use semel_engine::Answer;
/// use semel_http::{IdempotentRequest, IdempotentLayer, ReplyBody, RequestBody, Routes};
/// use semel_store::StoreError;
/// use tower::{ServiceBuilder, ServiceExt as _};
///
/// # use std::sync::Mutex;
/// # use semel_core::{Fence, Outcome, Settlement, Timestamp};
/// # type Body = http_body_util::Full<bytes::Bytes>;
/// # static CHARGE: Mutex<Option<Settlement>> = Mutex::new(None);
/// # async fn once_in_transaction(attempt: &IdempotentRequest, work: impl AsyncFnOnce() -> Outcome)
/// #     -> Result<Answer, StoreError> {
/// #     let expires = Timestamp::from_millis(0);
/// #     if let Some(settlement) = CHARGE.lock().unwrap().clone() {
/// #         return Ok(Answer::Replayed { settlement, expires });
/// #     }
/// #     let Outcome::Completed(reply) = work().await else { unreachable!() };
/// #     let settlement = Settlement::Completed(reply);
/// #     *CHARGE.lock().unwrap() = Some(settlement.clone());
/// #     let (fence, stored) = (Fence::FIRST, semel_engine::Stored::Durable);
/// #     Ok(Answer::Executed { settlement, expires, fence, stored })
/// # }
/// async fn charge(request: Request<RequestBody<Body>>) -> Result<Response<ReplyBody>, Infallible> {
///     let attempt = request.extensions().get::<IdempotentRequest>().expect("a POST needs a key");
///     // Claims `attempt.id()`, and if that is granted does the work, settles its outcome and
///     // commits. An axum handler has `Extension<IdempotentRequest>` and ends with `.into_response()`.
///     let answer = once_in_transaction(attempt, async || {
///         attempt.outcome(Response::new("charged"))
///     });
///     Ok(match answer.await {
///         Ok(answer) => attempt.respond(answer),
///         Err(error) => attempt.refuse(error),
///     })
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let service = ServiceBuilder::new().layer(IdempotentLayer::new(Routes::default())).service_fn(charge);
/// let request = || {
///     Request::post("/v1/charges").header("idempotency-key", "order-1").body(Body::from("100"))
/// };
/// let first = service.clone().oneshot(request()?).await?;
/// let retry = service.clone().oneshot(request()?).await?;
/// assert!(!first.headers().contains_key("x-idempotency-replayed"));
/// assert_eq!(retry.headers()["x-idempotency-replayed"], "true");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct IdempotentLayer {
    shared: Arc<Shared>,
}

/// A service whose handlers claim by themselves; made by [`IdempotentLayer`].
#[derive(Clone, Debug)]
pub struct IdempotentService<I> {
    shared: Arc<Shared>,
    inner: I,
}

#[derive(Clone, Debug)]
pub(super) struct Shared {
    routes: LiveRoutes,
    pub(super) admission: Admission,
    pub(super) executions: Arc<Semaphore>,
    pub(super) executions_max: usize,
    pub(super) quotas: Quotas,
}

// === impl IdempotentLayer ===

impl IdempotentLayer {
    /// A layer for these routes.
    pub fn new(routes: Routes) -> Self {
        let executions_max = Limits::default().executions_max;
        let executions = Arc::new(Semaphore::new(executions_max));
        let (admission, quotas) = (Admission::default(), Quotas::default());
        let routes = LiveRoutes::new(routes);
        Self { shared: Arc::new(Shared { routes, admission, executions, executions_max, quotas }) }
    }

    /// The same with a namespace of its own: applications that share a store do not share records.
    #[must_use]
    pub fn namespace(self, namespace: &str) -> Self {
        self.with(|shared| shared.admission.namespace = namespace.into())
    }

    /// The same holding at most so many bytes of bodies at once, over all requests: 256 MiB unless
    /// said otherwise. A request or replay beyond that is refused. A handler's own response counts,
    /// but is never refused: it is in memory already.
    ///
    /// A body counts for as long as anything of its bytes is held: see
    /// [`SemelLayer::max_buffered`](crate::SemelLayer::max_buffered).
    #[must_use]
    pub fn max_buffered(self, bytes: u64) -> Self {
        self.with(|shared| shared.admission.budget = BodyBudget::new(bytes))
    }

    /// The same believing only tokens that were verified; see
    /// [`SemelLayer::verifier`](crate::SemelLayer::verifier).
    #[must_use]
    pub fn verifier(self, verifier: Arc<dyn VerifyToken>) -> Self {
        self.with(|shared| shared.admission.verifier = Some(verifier))
    }

    /// The same with at most so many requests in their handlers at once, those whose client has
    /// hung up included (I10). One more is answered 503 `too_busy`.
    #[must_use]
    pub fn max_executions(self, max: usize) -> Self {
        let max = max.min(Semaphore::MAX_PERMITS);
        self.with(|shared| {
            shared.executions = Arc::new(Semaphore::new(max));
            shared.executions_max = max;
        })
    }

    /// The same reporting to other observers than [`RouteMetrics`](crate::RouteMetrics); see
    /// [`SemelLayer::observer`](crate::SemelLayer::observer).
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

impl<I> Layer<I> for IdempotentLayer {
    type Service = IdempotentService<I>;

    fn layer(&self, inner: I) -> Self::Service {
        self.shared.routes.live();
        IdempotentService { shared: self.shared.clone(), inner }
    }
}

// === impl IdempotentService ===

impl<I, B, R> Service<Request<B>> for IdempotentService<I>
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
            Routing::Pass(request) => return ResponseFuture::passed(self.inner.call(request)),
            Routing::Admit(routed) => routed,
            Routing::Refuse { route, why, version } => {
                let answer = std::future::ready(Ok(why.answer(&route, version)));
                return ResponseFuture::protected(answer);
            }
        };
        if routed.route.policy().mode == Mode::Shadow {
            routed.route.decided(Decided::Unchecked, None, 0);
            let request = routed.request.map(RequestBody::passed);
            return ResponseFuture::passed(self.inner.call(request));
        }
        let (shared, inner) = (self.shared.clone(), take_ready(&mut self.inner));
        ResponseFuture::protected(shared.execute(inner, routed))
    }
}
