//! One execution: the inner service is called, and its reply becomes an outcome.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderValue;
use http::{Request, Response};
use http_body::Body;
use semel_core::{Fence, Outcome, RecordId, Reply};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tower_service::Service;

use super::body_budget::BodyBudget;
use super::outcome::outcome_of;
use super::{BoxError, RequestBody, ResponseBody};
use crate::headers;
use crate::observe::{ExecutionLog, LiveRoute};

/// The inner service's response, for the client of this attempt.
pub(crate) struct LiveResponse<R, E> {
    pub(crate) response: Result<Response<ResponseBody<R>>, E>,
    pub(crate) took: Duration,
    /// False if the work surely has not begun.
    pub(crate) has_begun: bool,
}

/// An execution that is ready to start.
pub(crate) struct ExecutionTask<I, B, R, E> {
    pub(crate) inner: I,
    pub(crate) request: Request<RequestBody<B>>,
    pub(crate) route: Arc<LiveRoute>,
    pub(crate) id: RecordId,
    pub(crate) budget: Arc<BodyBudget>,
    /// The service logs the start itself.
    pub(crate) service_logs_start: bool,
    /// The channel to the client's response, which may be closed.
    pub(crate) report: oneshot::Sender<LiveResponse<R, E>>,
}

// === impl ExecutionTask ===

impl<I, B, R> ExecutionTask<I, B, R, I::Error>
where
    I: Service<Request<RequestBody<B>>, Response = Response<R>>,
    R: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    /// Calls the inner service and returns the outcome. The client's response is sent separately:
    /// it may differ from the stored reply, which may be a tombstone.
    pub(crate) fn execute(mut self, fence: Option<Fence>) -> impl Future<Output = Outcome> {
        if let Some(fence) = fence {
            let fence = HeaderValue::from(fence.get());
            self.request.headers_mut().insert(headers::IDEMPOTENCY_FENCE, fence);
        }
        // Not an `async fn`, nor taken apart before: a future has room for what it is given and for what is
        // moved out of that.
        async move {
            let began = Instant::now();
            let mut log = ExecutionLog::new(&self.route, self.id, fence);
            let asked = match poll_fn(|context| self.inner.poll_ready(context)).await {
                Ok(()) => {
                    if !self.service_logs_start {
                        log.begin();
                    } else if let Some(start) = log.begin_on_signal() {
                        self.request.extensions_mut().insert(start);
                    }
                    self.inner.call(self.request)
                }
                // The service was not called.
                Err(error) => {
                    let outcome = Outcome::FailedForNow(Reply::default());
                    return ended(&log, outcome, Err(error), began.elapsed(), self.report);
                }
            };
            let kept = match asked.await {
                Ok(response) => outcome_of(response, self.route.policy(), &self.budget),
                Err(error) => {
                    let outcome = Outcome::Unknown(Reply::default());
                    return ended(&log, outcome, Err(error), began.elapsed(), self.report);
                }
            };
            let (outcome, response) = kept.await;
            let took = began.elapsed();
            self.route.latency.note(took);
            ended(&log, outcome, Ok(response), took, self.report)
        }
    }
}

/// Reports the end of an execution, also to its client if that is still connected.
fn ended<R, E>(
    log: &ExecutionLog<'_>,
    outcome: Outcome,
    response: Result<Response<ResponseBody<R>>, E>,
    took: Duration,
    report: oneshot::Sender<LiveResponse<R, E>>,
) -> Outcome {
    log.end(&outcome);
    let live = LiveResponse { response, took, has_begun: log.is_begun() };
    if report.send(live).is_err() {
        log.log_detached_end(&outcome);
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
