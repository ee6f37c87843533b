//! What is reported: to observers and to the log.

mod decided;
mod execution_log;
mod lines;
mod live_route;
pub mod metric;
mod route_metrics;

pub use decided::Decided;
pub(crate) use execution_log::ExecutionLog;
pub use execution_log::ExecutionStart;
pub(crate) use live_route::{LiveRoute, LiveRoutes};
pub use route_metrics::RouteMetrics;

use std::time::Duration;

use crate::token::TokenRefused;

/// Observes the requests of one route that are not passed through. [`RouteMetrics`] is the default; another one is
/// given to a layer by [`SemelLayer::observer`](crate::SemelLayer::observer) or
/// [`IdempotentLayer::observer`](crate::IdempotentLayer::observer).
///
/// The methods are called while a request is answered: they must neither block nor panic.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use http::{Request, Response};
/// use semel_engine::Engine;
/// use semel_http::{Decided, RequestBody, RouteObserver, Routes, SemelLayer};
/// use semel_store::MemoryStore;
/// use tower::{ServiceBuilder, ServiceExt as _};
///
/// # type Body = http_body_util::Full<bytes::Bytes>;
/// #[derive(Default)]
/// struct Replays(AtomicU64);
///
/// impl RouteObserver for Replays {
///     fn decided(&self, decided: Decided) {
///         if decided == Decided::Replayed {
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let charge = async |_: Request<RequestBody<Body>>| -> Result<_, std::convert::Infallible> {
/// #     Ok(Response::new(Body::from("charged")))
/// # };
/// // One for all routes, or `Arc::new(Replays::default())` for one each.
/// let replays = Arc::new(Replays::default());
/// let observer = replays.clone();
/// let layer = SemelLayer::new(Engine::new(MemoryStore::new()), Routes::default())
///     .observer(move |_route| observer.clone());
/// let service = ServiceBuilder::new().layer(layer).service_fn(charge);
/// for _retry in 0..3 {
///     let request = Request::post("/v1/charges").header("idempotency-key", "order-1");
///     service.clone().oneshot(request.body(Body::from("100"))?).await?;
/// }
/// assert_eq!(replays.0.load(Ordering::Relaxed), 2);
/// # Ok(())
/// # }
/// ```
pub trait RouteObserver: Send + Sync + 'static {
    /// What became of a request.
    fn decided(&self, _decided: Decided) {}

    /// How long the execution of an answered request took, if it was executed, and how long its answer took beyond
    /// that.
    fn timed(&self, _execution: Option<Duration>, _added: Duration) {}

    /// The outcome of an execution is unknown and its key is released: a retry may execute the work again.
    fn unknown_released(&self) {}

    /// A token was refused.
    fn token_refused(&self, _reason: &TokenRefused) {}
}
