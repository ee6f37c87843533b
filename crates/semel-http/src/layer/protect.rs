//! A request on its way to the engine.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, Version};
use http_body::Body;
use semel_engine::{Answer, EngineError, Execution};
use semel_store::Store;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tower_service::Service;

use super::admit::{Admitted, Ready};
use super::answer::Answered;
use super::arrival::Arrival;
use super::execute::{Job, call};
use super::future::Boxed;
use super::{BoxError, RequestBody, ResponseBody, Shared};
use crate::observe::Decided;
use crate::problem::{Code, Problem};
use crate::routes::Route;

/// Takes the request to the engine, and its answer to the client.
pub(crate) async fn protect<S, I, B, R>(
    shared: Arc<Shared<S>>,
    inner: I,
    arrival: Arrival<B>,
) -> Result<Response<ResponseBody<R>>, I::Error>
where
    S: Store,
    I: Service<Request<RequestBody<B>>, Response = Response<R>> + Clone + Send + 'static,
    I::Error: Send + 'static,
    I::Future: Send + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    R: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let Arrival { route, need, key, request } = arrival;
    let version = request.version();
    // The parts of its way are boxed one by one: no two of them need room at once.
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

/// Takes a request that is ready to the engine. Not an `async fn`: its future would have room for the
/// request twice.
fn answer<S, I, B, R>(
    shared: Arc<Shared<S>>,
    inner: I,
    route: Arc<Route>,
    version: Version,
    ready: Ready<B>,
) -> impl Future<Output = Result<Response<ResponseBody<R>>, I::Error>> + Send
where
    S: Store,
    I: Service<Request<RequestBody<B>>, Response = Response<R>> + Clone + Send + 'static,
    I::Error: Send + 'static,
    I::Future: Send + 'static,
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
    R: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    // What the client took to send its body is not ours.
    let began = Instant::now();
    let Ready { request, id, fingerprint } = ready;
    let attempt = shared.engine.attempt(id, fingerprint);
    let (report, live) = oneshot::channel();
    let room = shared.admission.room.clone();
    let job = Job { inner, request, route: route.clone(), id, room, report };
    let work = move |execution: Execution| job.execute(execution.fence());
    let answering = shared.engine.once(attempt, &route.policy().core, work);
    async move {
        let answer = answering.await;
        let (room, clock) = (&shared.admission.room, &shared.clock);
        let is_own = matches!(answer, Ok(Answer::InFlight { .. })) && shared.engine.executes(id);
        Answered { route: &route, id, began, version, room, clock, is_own }.response(answer, live)
    }
}

/// What the engine could not do, as a problem.
pub(crate) fn refused_by_engine(error: &EngineError) -> (Decided, Problem) {
    let (decided, code, detail): (_, _, Cow<'static, str>) = match error {
        EngineError::Store(_) => (
            Decided::StoreUnavailable,
            Code::StoreUnavailable,
            "the store of idempotency records cannot be asked; nothing was executed".into(),
        ),
        EngineError::ShuttingDown => (
            Decided::Refused,
            Code::ShuttingDown,
            "the server is going down; nothing was executed".into(),
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
