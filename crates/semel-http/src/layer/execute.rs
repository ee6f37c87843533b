//! One execution: the inner service is called, and its reply becomes an outcome.

use std::future::poll_fn;
use std::sync::Arc;

use bytes::Bytes;
use http::header::HeaderValue;
use http::{Request, Response};
use http_body::Body;
use semel_core::{Fence, Outcome, RecordId, Reply};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tower_service::Service;

use super::keep::keep;
use super::room::Room;
use super::{BoxError, RequestBody, ResponseBody};
use crate::headers;
use crate::observe::Underway;
use crate::routes::Route;

/// What the inner service gave, for the client of this very attempt.
pub(crate) struct Live<R, E> {
    pub(crate) response: Result<Response<ResponseBody<R>>, E>,
    pub(crate) took: std::time::Duration,
}

/// All that an execution needs.
pub(crate) struct Job<I, B, R, E> {
    pub(crate) inner: I,
    pub(crate) request: Request<RequestBody<B>>,
    pub(crate) route: Arc<Route>,
    pub(crate) id: RecordId,
    pub(crate) room: Arc<Room>,
    /// Where the client may still wait.
    pub(crate) report: oneshot::Sender<Live<R, E>>,
}

// === impl Job ===

impl<I, B, R> Job<I, B, R, I::Error>
where
    I: Service<Request<RequestBody<B>>, Response = Response<R>>,
    R: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    /// Calls the inner service and says how it ended. The reply for the client goes aside: it need
    /// not be the stored one, which may be a mere tombstone.
    pub(crate) fn execute(mut self, fence: Option<Fence>) -> impl Future<Output = Outcome> {
        if let Some(fence) = fence {
            let fence = HeaderValue::from(fence.get());
            self.request.headers_mut().insert(headers::IDEMPOTENCY_FENCE, fence);
        }
        // Not an `async fn`, nor taken apart before: a future has room for what it is given and for what is
        // moved out of that.
        async move {
            let began = Instant::now();
            let underway = Underway::begin(&self.route, self.id, fence);
            let asked = match poll_fn(|context| self.inner.poll_ready(context)).await {
                Ok(()) => self.inner.call(self.request),
                // It was not even asked.
                Err(error) => {
                    let live = Live { response: Err(error), took: began.elapsed() };
                    let outcome = Outcome::FailedForNow(Reply::default());
                    return ended(&underway, outcome, live, self.report);
                }
            };
            let kept = match asked.await {
                Ok(response) => keep(response, self.route.policy(), &self.room),
                Err(error) => {
                    let live = Live { response: Err(error), took: began.elapsed() };
                    let outcome = Outcome::Unknown(Reply::default());
                    return ended(&underway, outcome, live, self.report);
                }
            };
            let (outcome, response) = kept.await;
            let took = began.elapsed();
            self.route.latency.note(took);
            ended(&underway, outcome, Live { response: Ok(response), took }, self.report)
        }
    }
}

/// Reports the end of an execution, to the client if it is still there.
fn ended<R, E>(
    underway: &Underway<'_>,
    outcome: Outcome,
    live: Live<R, E>,
    report: oneshot::Sender<Live<R, E>>,
) -> Outcome {
    underway.end(&outcome);
    if report.send(live).is_err() {
        underway.unheard(&outcome);
    }
    outcome
}

/// Calls a service once it is ready.
pub(crate) async fn call<I, Q>(service: I, request: Q) -> Result<I::Response, I::Error>
where
    I: Service<Q>,
{
    ready(service).await?.call(request).await
}

/// The service, once it is ready.
async fn ready<I, Q>(mut service: I) -> Result<I, I::Error>
where
    I: Service<Q>,
{
    poll_fn(|context| service.poll_ready(context)).await?;
    Ok(service)
}
