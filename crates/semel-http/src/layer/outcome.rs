//! The outcome of an execution by its response, and the reply for the record.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Response, StatusCode, response};
use http_body::Body;
use semel_core::planted::{Bug, planted};
use semel_core::{Outcome, Reply, ResultId};

use super::body::Read;
use super::body_budget::BodyBudget;
use super::reading::{Reading, read};
use super::rejection::Rejection;
use super::{BoxError, ReplyBody, ResponseBody};
use crate::fingerprint::is_json;
use crate::headers;
use crate::json::{self, Scalar};
use crate::policy::{RoutePolicy, StatusMeaning};
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

/// Turns a response into an outcome and the response for the client of this attempt.
pub(crate) fn outcome_of<'a, R>(
    response: Response<R>,
    policy: &'a RoutePolicy,
    budget: &'a Arc<BodyBudget>,
) -> impl Future<Output = (Outcome, Response<ResponseBody<R>>)> + Send + use<'a, R>
where
    R: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let (mut parts, body) = response.into_parts();
    let meaning = policy.classify(parts.status);
    let kind = classify(&mut parts, meaning);
    async move {
        if !kind.is_kept() {
            return (kind.with(Reply::default()), passed(parts, body));
        }
        match read(body, policy.max_reply_body, None, budget).await {
            Reading::Whole(mut read) => {
                let body = StoredBody::Kept(read.whole().clone());
                let reply = stored(&parts, &body, read.trailers(), policy);
                (kind.with(reply), Response::from_parts(parts, ResponseBody::read(read)))
            }
            // Done, but too large to keep: never executed again (trap 6).
            Reading::TooLarge(read, rest) | Reading::OverBudget(read, rest) => {
                let reply = stored(&parts, &StoredBody::Omitted, None, policy);
                (kind.with(reply), Response::from_parts(parts, ResponseBody::partly(read, rest)))
            }
            Reading::Broken(error) => {
                tracing::debug!(%error, "the reply broke off");
                broken_off(&Rejection::ReplyBroken, policy)
            }
            Reading::Late => broken_off(&Rejection::ReplyTimedOut, policy),
        }
    }
}

/// The same for a response that is in memory as a whole, with its reply for the record. The
/// reply is encoded for every kind: by it an answer is matched with its response.
pub(crate) fn outcome_of_whole(
    response: Response<Bytes>,
    policy: &RoutePolicy,
    budget: &Arc<BodyBudget>,
) -> (OutcomeKind, Reply, Response<ReplyBody>) {
    let (mut parts, body) = response.into_parts();
    let meaning = policy.classify_in_transaction(parts.status);
    let kind = classify(&mut parts, meaning);
    let len = body.len() as u64;
    let mut read = Read::within(budget);
    // Over budget it is not counted: it is in memory already.
    read.reserve(len);
    read.push(body.clone());
    let is_too_large = len > policy.max_reply_body;
    let body = if is_too_large { StoredBody::Omitted } else { StoredBody::Kept(body) };
    let reply = stored(&parts, &body, None, policy);
    (kind, reply, Response::from_parts(parts, ResponseBody::read(read)))
}

/// The kind of outcome: by the response's extension, or else by its status. Removes the headers that are
/// not for the client, and adds a `Date` if the reply is stored.
fn classify(parts: &mut response::Parts, meaning: StatusMeaning) -> OutcomeKind {
    headers::remove_hop_by_hop(&mut parts.headers);
    headers::remove_own(&mut parts.headers);
    let kind: OutcomeKind = parts.extensions.remove().unwrap_or_else(|| meaning.kind(parts.status));
    if kind.is_kept() {
        stamp(&mut parts.headers);
    }
    kind
}

/// Adds a `Date`. A server would add one to each replay, so that replays would differ (I4).
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

fn broken_off<R>(why: &Rejection, policy: &RoutePolicy) -> (Outcome, Response<ResponseBody<R>>) {
    (Outcome::Unknown(Reply::default()), why.response(policy))
}

/// The reply for the record.
fn stored(
    parts: &response::Parts,
    body: &StoredBody,
    trailers: Option<&HeaderMap>,
    policy: &RoutePolicy,
) -> Reply {
    let mut trailers = trailers.cloned().unwrap_or_default();
    headers::clean_trailers(&mut trailers);
    let cookies = policy.replay_cookies || planted(Bug::CookiesReplayed);
    let reply =
        Reply::new(stored_reply::encode(parts.status, &parts.headers, cookies, body, &trailers));
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

// === impl OutcomeKind ===

impl OutcomeKind {
    /// True if the reply is stored and replayed.
    const fn is_kept(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }

    pub(crate) const fn with(self, reply: Reply) -> Outcome {
        match self {
            Self::Completed => Outcome::Completed(reply),
            Self::Failed => Outcome::Failed(reply),
            Self::FailedForNow => Outcome::FailedForNow(reply),
            Self::Unknown => Outcome::Unknown(reply),
        }
    }
}

// === impl StatusMeaning ===

impl StatusMeaning {
    fn kind(self, status: StatusCode) -> OutcomeKind {
        match self {
            Self::Released => OutcomeKind::FailedForNow,
            Self::Unknown => OutcomeKind::Unknown,
            Self::Kept if status.is_client_error() || status.is_server_error() => {
                OutcomeKind::Failed
            }
            Self::Kept => OutcomeKind::Completed,
        }
    }
}
