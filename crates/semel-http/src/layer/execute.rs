//! One execution: the inner service is called, and its reply becomes an outcome.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Request, Response, StatusCode, response};
use http_body::Body;
use semel_core::{Outcome, Reply, ResultId};
use semel_engine::Execution;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tower_service::Service;

use super::reading::{Reading, read};
use super::room::Room;
use super::{BoxError, RequestBody, ResponseBody};
use crate::fingerprint::is_json;
use crate::headers;
use crate::json::{self, Scalar};
use crate::policy::RoutePolicy;
use crate::problem::{Code, Problem};
use crate::routes::Route;
use crate::source::PartSource;
use crate::stored_reply::{self, StoredBody};

/// How an execution ended, where its status does not say it: an extension that a handler may put
/// into its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutcomeKind {
    /// It took effect: keep the reply and replay it.
    Completed,
    /// It failed and will fail again: keep the reply and replay it.
    Failed,
    /// It surely did not take effect: a retry executes again.
    FailedForNow,
    /// It may or may not have taken effect: the policy says what to do.
    Unknown,
}

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
    pub(crate) async fn execute(self, execution: Execution) -> Outcome {
        let Self { inner, mut request, route, room, report } = self;
        if let Some(fence) = execution.fence() {
            request
                .headers_mut()
                .insert(headers::IDEMPOTENCY_FENCE, HeaderValue::from(fence.get()));
        }
        let began = Instant::now();
        let (outcome, response) = match ready(inner).await {
            // It was not even asked.
            Err(error) => (Outcome::FailedForNow(Reply::default()), Err(error)),
            Ok(mut inner) => match inner.call(request).await {
                Err(error) => (Outcome::Unknown(Reply::default()), Err(error)),
                Ok(response) => {
                    let (outcome, response) = keep(response, route.policy(), &room).await;
                    (outcome, Ok(response))
                }
            },
        };
        // Nobody may be there to hear it.
        let _ = report.send(Live { response, took: began.elapsed() });
        outcome
    }
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

/// Turns a response into an outcome, and into what the client of this attempt gets.
async fn keep<R>(
    response: Response<R>,
    policy: &RoutePolicy,
    room: &Arc<Room>,
) -> (Outcome, Response<ResponseBody<R>>)
where
    R: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let (mut parts, body) = response.into_parts();
    headers::remove_hop_by_hop(&mut parts.headers);
    headers::remove_own(&mut parts.headers);
    let kind = parts.extensions.remove().unwrap_or_else(|| policy.outcome_of(parts.status));
    let settled = match kind {
        OutcomeKind::FailedForNow => {
            return (Outcome::FailedForNow(Reply::default()), passed(parts, body));
        }
        OutcomeKind::Unknown => return (Outcome::Unknown(Reply::default()), passed(parts, body)),
        OutcomeKind::Completed => Outcome::Completed,
        OutcomeKind::Failed => Outcome::Failed,
    };
    stamp(&mut parts.headers);
    match read(body, policy.max_reply_body, None, room).await {
        Reading::Whole(mut read) => {
            let body = StoredBody::Kept(read.whole().clone());
            let reply = stored(&parts, &body, read.trailers(), policy);
            (settled(reply), Response::from_parts(parts, ResponseBody::read(read)))
        }
        // Done, but too large to keep: never executed again (trap 6).
        Reading::TooLarge(read, rest) | Reading::NoRoom(read, rest) => {
            let reply = stored(&parts, &StoredBody::Omitted, None, policy);
            (settled(reply), Response::from_parts(parts, ResponseBody::partly(read, rest)))
        }
        Reading::Broken(error) => {
            tracing::debug!(%error, "the reply broke off");
            let detail = "the upstream broke off in the middle of its reply";
            broken_off(Code::UpstreamUnreachable, detail)
        }
        Reading::Late => {
            let detail = "the upstream took too long in the middle of its reply";
            broken_off(Code::UpstreamTimeout, detail)
        }
    }
}

/// Gives the reply its date. A server that sends it would, and then each replay would have another
/// (I4).
#[expect(clippy::disallowed_methods, reason = "a date for people to read, which decides nothing")]
fn stamp(headers: &mut HeaderMap) {
    if !headers.contains_key(header::DATE)
        && let Ok(date) = HeaderValue::try_from(httpdate::fmt_http_date(SystemTime::now()))
    {
        headers.insert(header::DATE, date);
    }
}

fn passed<R>(parts: response::Parts, body: R) -> Response<ResponseBody<R>> {
    Response::from_parts(parts, ResponseBody::passed(body))
}

fn broken_off<R>(code: Code, detail: &str) -> (Outcome, Response<ResponseBody<R>>) {
    (Outcome::Unknown(Reply::default()), Problem::new(code, detail).into_response())
}

/// The reply for the record.
fn stored(
    parts: &response::Parts,
    body: &StoredBody,
    trailers: Option<&HeaderMap>,
    policy: &RoutePolicy,
) -> Reply {
    let none = HeaderMap::new();
    let trailers = trailers.unwrap_or(&none);
    let cookies = policy.replay_cookies;
    let reply =
        Reply::new(stored_reply::encode(parts.status, &parts.headers, cookies, body, trailers));
    match result_of(&parts.headers, body, policy) {
        Some(result) => reply.with_result(result),
        None => reply,
    }
}

/// The id of what was made: where the policy says, or else `Location`.
fn result_of(headers: &HeaderMap, body: &StoredBody, policy: &RoutePolicy) -> Option<ResultId> {
    let in_header = |name| ResultId::new(headers.get(name)?.to_str().ok()?);
    match (&policy.result_from, body) {
        (None, _) => in_header(&header::LOCATION),
        (Some(PartSource::Header(name)), _) => in_header(name),
        (Some(PartSource::Json(pointer)), StoredBody::Kept(body)) if is_json(headers) => {
            match json::find(body, pointer).ok()?? {
                Scalar::String(text) | Scalar::Number(text) => ResultId::new(text),
                Scalar::Other => None,
            }
        }
        (Some(PartSource::Json(_)), _) => None,
    }
}

// === impl RoutePolicy ===

impl RoutePolicy {
    /// What a status says about the work.
    fn outcome_of(&self, status: StatusCode) -> OutcomeKind {
        if self.releases(status) {
            OutcomeKind::FailedForNow
        } else if status.is_client_error() || status.is_server_error() {
            OutcomeKind::Failed
        } else {
            OutcomeKind::Completed
        }
    }
}
