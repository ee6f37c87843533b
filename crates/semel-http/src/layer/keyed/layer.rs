//! The layer above handlers that claim by themselves.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use semel_engine::Limits;
use tokio::sync::Semaphore;
use tower_layer::Layer;
use tower_service::Service;

use crate::layer::admit::Admission;
use crate::layer::arrival::{Arrived, arrive};
use crate::layer::room::Room;
use crate::layer::{BoxError, RequestBody, ResponseBody, ResponseFuture, take_ready};
use crate::observe::Decided;
use crate::policy::Mode;
use crate::routes::Routes;

/// Does all of the HTTP contract but the claim, for handlers that claim, execute and settle in one
/// transaction of their own: the *same transaction* mode. It needs no engine and no store.
///
/// A request takes the way it takes through [`SemelLayer`](crate::SemelLayer), and is refused as
/// there: route, key, scope, body, fingerprint. Then the inner service is called with the body as it
/// was read and a [`Keyed`] among the request's extensions, which turns the handler's response into
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
/// So that those who hang up cannot pile up work, at most 100,000 requests run at a time; see
/// [`max_executions`](Self::max_executions).
///
/// # Shadow mode
///
/// cannot look for duplicates without a store. Such a route is passed on without a [`Keyed`], and
/// counted as `unchecked`.
///
/// [`Keyed`]: super::Keyed
///
/// # Example
///
/// ```
/// use std::convert::Infallible;
/// use http::{Request, Response};
/// use semel_engine::Answer;
/// use semel_http::{Keyed, KeyedLayer, ReplyBody, RequestBody, Routes};
/// use semel_store::StoreError;
/// use tower::{ServiceBuilder, ServiceExt as _};
///
/// # use std::sync::Mutex;
/// # use semel_core::{Fence, Outcome, Settlement, Timestamp};
/// # type Body = http_body_util::Full<bytes::Bytes>;
/// # static CHARGE: Mutex<Option<Settlement>> = Mutex::new(None);
/// # async fn once_in_transaction(keyed: &Keyed, work: impl AsyncFnOnce() -> Outcome)
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
///     let keyed = request.extensions().get::<Keyed>().expect("a POST needs a key");
///     // Claims `keyed.id()`, and if that is granted does the work, settles its outcome and
///     // commits. An axum handler has `Extension<Keyed>` and ends with `.into_response()`.
///     let answer = once_in_transaction(keyed, async || {
///         keyed.outcome(Response::new("charged"))
///     });
///     Ok(match answer.await {
///         Ok(answer) => keyed.respond(answer),
///         Err(error) => keyed.refuse(error),
///     })
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let service = ServiceBuilder::new().layer(KeyedLayer::new(Routes::default())).service_fn(charge);
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
pub struct KeyedLayer {
    shared: Arc<Shared>,
}

/// A service whose handlers claim by themselves; made by [`KeyedLayer`].
#[derive(Clone, Debug)]
pub struct KeyedService<I> {
    shared: Arc<Shared>,
    inner: I,
}

#[derive(Clone, Debug)]
pub(super) struct Shared {
    routes: Routes,
    pub(super) admission: Admission,
    pub(super) executions: Arc<Semaphore>,
    pub(super) executions_max: usize,
}

// === impl KeyedLayer ===

impl KeyedLayer {
    /// A layer for these routes.
    pub fn new(routes: Routes) -> Self {
        let executions_max = Limits::default().executions_max;
        let executions = Arc::new(Semaphore::new(executions_max));
        let admission = Admission::default();
        Self { shared: Arc::new(Shared { routes, admission, executions, executions_max }) }
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
        self.with(|shared| shared.admission.room = Room::new(bytes))
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

    fn with(self, change: impl FnOnce(&mut Shared)) -> Self {
        let mut shared = Arc::unwrap_or_clone(self.shared);
        change(&mut shared);
        Self { shared: Arc::new(shared) }
    }
}

impl<I> Layer<I> for KeyedLayer {
    type Service = KeyedService<I>;

    fn layer(&self, inner: I) -> Self::Service {
        KeyedService { shared: self.shared.clone(), inner }
    }
}

// === impl KeyedService ===

impl<I, B, R> Service<Request<B>> for KeyedService<I>
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
        let arrival = match arrive(&self.shared.routes, request) {
            Arrived::Pass(request) => return ResponseFuture::passed(self.inner.call(request)),
            Arrived::Admit(arrival) => arrival,
        };
        if arrival.route.policy().mode == Mode::Shadow {
            arrival.route.decided(Decided::Unchecked, None, 0);
            let request = arrival.request.map(RequestBody::passed);
            return ResponseFuture::passed(self.inner.call(request));
        }
        let (shared, inner) = (self.shared.clone(), take_ready(&mut self.inner));
        ResponseFuture::protected(shared.execute(inner, arrival))
    }
}
