//! A protected request: admission, then the engine, then the response.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, Version};
use http_body::Body;
use semel_engine::{Answer, Execution};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tower_service::Service;

use super::admit::{Admitted, Ready};
use super::answer::Answered;
use super::execute::{ExecutionTask, call};
use super::future::Boxed;
use super::routing::RoutedRequest;
use super::{BoxError, RequestBody, ResponseBody, Shared};
use crate::observe::LiveRoute;

/// Admits the request, runs it through the engine and returns the response.
pub(crate) async fn protect<I, B, R>(
    shared: Arc<Shared>,
    inner: I,
    routed: RoutedRequest<B>,
) -> Result<Response<ResponseBody<R>>, I::Error>
where
    I: Service<Request<RequestBody<B>>, Response = Response<R>> + Clone + Send + 'static,
    I::Error: Send + 'static,
    I::Future: Send + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    R: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let RoutedRequest { route, need, key, request } = routed;
    let version = request.version();
    // The stages are boxed one by one: no two of them are in memory at once.
    let admitted = Box::pin(shared.admission.admit(&route, need, key, request)).await;
    let next: Boxed<R, I::Error> = match admitted {
        Ok(Admitted::Ready(ready)) => Box::pin(answer(shared, inner, route, version, ready)),
        Ok(Admitted::Pass(request)) => {
            Box::pin(async { Ok(call(inner, request).await?.map(ResponseBody::passed)) })
        }
        Err(refused) => return Ok(refused.answer(&route, version)),
    };
    next.await
}

/// Passes an admitted request to the engine. Not an `async fn`: its future would have room for the
/// request twice.
fn answer<I, B, R>(
    shared: Arc<Shared>,
    inner: I,
    route: Arc<LiveRoute>,
    version: Version,
    ready: Ready<B>,
) -> impl Future<Output = Result<Response<ResponseBody<R>>, I::Error>> + Send
where
    I: Service<Request<RequestBody<B>>, Response = Response<R>> + Clone + Send + 'static,
    I::Error: Send + 'static,
    I::Future: Send + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    R: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    // The time in which the client sent its body is not counted.
    let began = Instant::now();
    let Ready { request, id, fingerprint, quota } = ready;
    let attempt = shared.engine.attempt(id, fingerprint);
    let (report, live) = oneshot::channel();
    let budget = shared.admission.budget.clone();
    let service_logs_start = shared.service_logs_start;
    let task = ExecutionTask {
        inner,
        request,
        route: route.clone(),
        id,
        budget,
        service_logs_start,
        report,
    };
    let work = move |execution: Execution| task.execute(execution.fence());
    let answering = shared.engine.once_within(attempt, &route.policy().core, quota, work);
    async move {
        let answer = answering.await;
        let (budget, clock) = (&shared.admission.budget, &shared.clock);
        let is_own = matches!(answer, Ok(Answer::InFlight { .. })) && shared.engine.executes(id);
        Answered { route: &route, id, began, version, budget, clock, is_own }.response(answer, live)
    }
}
