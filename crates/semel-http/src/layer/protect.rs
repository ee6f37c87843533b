//! A protected request: admission, then the engine, then the response.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Version};
use http_body::Body;
use semel_engine::{Answer, EngineError, Execution, TooManyKeys};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tower_service::Service;

use super::admit::{Admitted, Ready};
use super::answer::Answered;
use super::execute::{ExecutionTask, call};
use super::future::Boxed;
use super::routing::RoutedRequest;
use super::{BoxError, RequestBody, ResponseBody, Shared};
use crate::observe::{Decided, LiveRoute};
use crate::problem::{Code, Problem};
use crate::retry_after::whole_seconds;

/// `Retry-After` of a client at its execution limit: one of its executions may have ended.
const EXECUTIONS_AGAIN_IN: Duration = Duration::from_secs(1);

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

/// The problem for an engine's error.
pub(crate) fn refused_by_engine(error: &EngineError) -> (Decided, Problem) {
    let (decided, code, detail): (_, _, Cow<'static, str>) = match error {
        EngineError::Store(error) if error.is_local() => (
            Decided::Refused,
            Code::TooBusy,
            "the gateway has no file descriptor, memory or queue slot left for its store of idempotency records; \
             nothing was executed"
                .into(),
        ),
        EngineError::Store(_) => (
            Decided::StoreUnavailable,
            Code::StoreUnavailable,
            "the store of idempotency records is unavailable; nothing was executed".into(),
        ),
        EngineError::TooManyKeys(over) => return too_many_keys(*over),
        EngineError::ShuttingDown => (
            Decided::Refused,
            Code::ShuttingDown,
            "the server is shutting down; nothing was executed".into(),
        ),
        EngineError::TooManyExecutions { max } => (
            Decided::Refused,
            Code::TooBusy,
            format!("{max} requests are running already; nothing was executed").into(),
        ),
        _ => (
            Decided::Unknown,
            Code::ExecutionInterrupted,
            "the execution was stopped; retry with the same key to learn its outcome".into(),
        ),
    };
    (decided, Problem::new(code, detail.into_owned()).with_retry_after(1))
}

/// The client is at a limit of its quota on this route.
fn too_many_keys(over: TooManyKeys) -> (Decided, Problem) {
    let (detail, again_in) = match over {
        TooManyKeys::Executions { max } => (
            format!(
                "{max} requests of this client are running on this route already; nothing was \
                 executed; retry with the same key"
            ),
            EXECUTIONS_AGAIN_IN,
        ),
        TooManyKeys::NewKeys { rate, again_in } => (
            format!(
                "this client has sent more new keys on this route than it may ({rate}); nothing \
                 was executed; retry with the same key"
            ),
            again_in,
        ),
        TooManyKeys::Records { rate, again_in } => (
            format!(
                "this client has begun as many records on this route as it may ({rate}); nothing was \
                 executed; retry with the same key"
            ),
            again_in,
        ),
        TooManyKeys::RecordBytes { rate, again_in } => (
            format!(
                "the recorded replies to this client on this route have as many bytes as they may \
                 ({rate}); nothing was executed; retry with the same key"
            ),
            again_in,
        ),
        _ => {
            (format!("{over}; nothing was executed; retry with the same key"), EXECUTIONS_AGAIN_IN)
        }
    };
    let problem = Problem::new(Code::TooManyKeys, detail).with_retry_after(whole_seconds(again_in));
    (Decided::TooManyKeys, problem)
}
