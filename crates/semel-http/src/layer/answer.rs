//! The response for an engine's answer.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::header::{HeaderMap, HeaderValue};
use http::{Response, StatusCode, Version};
use semel_core::{InFlight, RecordId, Settlement, Timestamp};
use semel_engine::{Answer, EngineError, Stored};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::body_budget::BodyBudget;
use super::execute::LiveResponse;
use super::protect::refused_by_engine;
use super::rejection::close;
use super::replay::{self, ReplayError};
use super::{ResponseBody, StoreClock};
use crate::headers;
use crate::observe::{Decided, LiveRoute};
use crate::policy::RoutePolicy;
use crate::problem::{Code, Problem};
use crate::retry_after::{Holder, InFlightLease};

/// `Retry-After` when a replay exceeds the memory budget: other replies are sent within seconds.
const OVER_BUDGET_RETRY_AFTER_S: u32 = 1;

const IN_PROGRESS: &str =
    "the first request with this key is still running; retry with the same key to get its answer";
const OVERDUE: &str = "the first request with this key was started, and its lease has not been renewed since; retry with \
                      the same key after the time in Retry-After, when the lease has expired";

/// The context in which an answer becomes a response.
pub(crate) struct Answered<'a> {
    pub(crate) route: &'a LiveRoute,
    pub(crate) id: RecordId,
    pub(crate) began: Instant,
    pub(crate) version: Version,
    pub(crate) budget: &'a Arc<BodyBudget>,
    pub(crate) clock: &'a StoreClock,
    /// The attempt in flight is executed or settled by this very process.
    pub(crate) is_own: bool,
}

// === impl Answered ===

impl Answered<'_> {
    /// The response for the client. `live` has what this attempt's own execution gave, if it
    /// executed.
    pub(crate) fn response<R, E>(
        self,
        answer: Result<Answer, EngineError>,
        mut live: oneshot::Receiver<LiveResponse<R, E>>,
    ) -> Result<Response<ResponseBody<R>>, E> {
        let live = live.try_recv().ok();
        // Work that panicked has begun.
        let has_begun = live.as_ref().is_none_or(|live| live.has_begun);
        self.route.timed(live.as_ref().map(|live| live.took), self.began.elapsed());
        let live = match live.map(|live| live.response).transpose() {
            Ok(live) => live,
            // The service itself failed: its caller gets that, unless another outcome counts (I4).
            Err(error) if answer.as_ref().is_ok_and(is_own) => {
                self.route.ended(Decided::Failed, Some(self.id), 0, has_begun);
                return Err(error);
            }
            Err(_) => None,
        };
        let (decided, response) = match answer {
            Ok(answer) => self.answered(answer, live),
            Err(error) => self.refused(&error),
        };
        self.route.ended(decided, Some(self.id), response.status().as_u16(), has_begun);
        Ok(response)
    }

    /// Counts and logs the decision.
    pub(crate) fn record_decision<R>(
        &self,
        (decided, response): (Decided, Response<ResponseBody<R>>),
    ) -> Response<ResponseBody<R>> {
        self.route.decided(decided, Some(self.id), response.status().as_u16());
        response
    }

    /// The decision and the response for the client. `live` has what this attempt's own execution gave.
    pub(crate) fn answered<R>(
        &self,
        answer: Answer,
        live: Option<Response<ResponseBody<R>>>,
    ) -> (Decided, Response<ResponseBody<R>>) {
        let policy = self.route.policy();
        match answer {
            Answer::Executed { expires, stored, .. } => {
                let mut response = live.unwrap_or_else(interrupted);
                let headers = response.headers_mut();
                if stored != Stored::Gone {
                    expire(headers, expires);
                }
                if stored == Stored::Durable {
                    return (Decided::Executed, response);
                }
                headers.insert(headers::STORED, headers::FALSE);
                (Decided::NotStored, response)
            }
            Answer::Released { .. } => (Decided::Released, live.unwrap_or_else(interrupted)),
            Answer::Replayed { settlement, expires } => {
                // The reply of a fenced holder is not needed; dropping it returns its budget.
                drop(live);
                self.replay(&settlement, expires)
            }
            Answer::InFlight { until } => (Decided::InFlight, self.in_flight(until)),
            Answer::Mismatch => (Decided::Mismatch, mismatch(policy)),
            // Without a reply it is another attempt's outcome that is unknown: a fenced holder
            // does not answer with its own (I4).
            Answer::Unknown { reply } => {
                let decided = if reply.is_some() { Decided::Held } else { Decided::Unknown };
                let own = live.filter(|_| reply.is_some());
                (decided, own.unwrap_or_else(unknown))
            }
            Answer::Bypassed { .. } => {
                let mut response = live.unwrap_or_else(interrupted);
                response.headers_mut().insert(headers::BYPASSED, headers::TRUE);
                (Decided::Bypassed, response)
            }
        }
    }

    pub(crate) fn refused<R>(&self, error: &EngineError) -> (Decided, Response<ResponseBody<R>>) {
        let (decided, problem) = refused_by_engine(error);
        let mut response = problem.into_response();
        if matches!(error, EngineError::ShuttingDown) {
            close(response.headers_mut(), self.version);
        }
        (decided, response)
    }

    /// Another attempt has the lease until then.
    fn in_flight<R>(&self, until: Timestamp) -> Response<ResponseBody<R>> {
        let policy = &self.route.policy().core;
        let (lease, usual) = (policy.lease(), self.route.latency.usual());
        let (now, is_own) = (self.clock.now(), self.is_own);
        let (holder, seconds) = InFlightLease { until, now, lease, usual, is_own }.retry_after();
        let detail = match holder {
            Holder::Renewing => IN_PROGRESS,
            Holder::Overdue => OVERDUE,
        };
        let status = match policy.in_flight() {
            InFlight::Accepted => StatusCode::ACCEPTED,
            InFlight::Conflict | InFlight::Wait(_) => StatusCode::CONFLICT,
        };
        Problem::new(Code::RequestInProgress, detail)
            .with_status(status)
            .with_retry_after(seconds)
            .into_response()
    }

    /// The replay of the recorded outcome.
    fn replay<R>(
        &self,
        settlement: &Settlement,
        expires: Timestamp,
    ) -> (Decided, Response<ResponseBody<R>>) {
        let reply = settlement.reply().map(|reply| replay::replay(reply, self.budget)).transpose();
        let mut response = match reply {
            Ok(response) => response.unwrap_or_else(abandoned),
            Err(why) => return self.not_replayed(&why),
        };
        let headers = response.headers_mut();
        for (name, value) in &self.route.policy().replay_headers {
            headers.insert(name, value.clone());
        }
        expire(headers, expires);
        (Decided::Replayed, response)
    }

    /// The work was done: it is not executed again, even if its reply cannot be returned.
    pub(crate) fn not_replayed<R>(
        &self,
        why: &ReplayError,
    ) -> (Decided, Response<ResponseBody<R>>) {
        match why {
            ReplayError::Unreadable(error) => {
                self.route.lines.unreadable.line(|left_out| {
                    let record = self.id.prefix();
                    tracing::error!(record, %error, left_out, "the stored reply cannot be read");
                });
                let problem = Problem::new(Code::StoredReplyUnreadable, error.to_string());
                (Decided::Unknown, problem.into_response())
            }
            ReplayError::OverBudget => (Decided::Refused, over_budget()),
        }
    }
}

/// True for the outcome of this attempt's own execution.
pub(crate) const fn is_own(answer: &Answer) -> bool {
    matches!(
        answer,
        Answer::Executed { .. }
            | Answer::Released { .. }
            | Answer::Bypassed { .. }
            | Answer::Unknown { reply: Some(_) }
    )
}

/// Sets the header with the time until which retries are replayed.
fn expire(headers: &mut HeaderMap, expires: Timestamp) {
    let moment = SystemTime::UNIX_EPOCH + Duration::from_millis(expires.as_millis());
    // Only a year above 9999 cannot be written.
    let is_writable = expires.as_millis() / 1_000 < 253_402_300_800;
    if is_writable && let Ok(value) = HeaderValue::try_from(httpdate::fmt_http_date(moment)) {
        headers.insert(headers::EXPIRES, value);
    }
}

fn mismatch<R>(policy: &RoutePolicy) -> Response<ResponseBody<R>> {
    let detail = "this key was used for another request; use a new key for each operation";
    Problem::new(Code::PayloadMismatch, detail).with_status(policy.mismatch_status).into_response()
}

fn over_budget<R>() -> Response<ResponseBody<R>> {
    let detail = "the recorded reply exceeds the memory limit of bodies while so many are being sent; \
                  nothing was executed";
    Problem::new(Code::TooBusy, detail).with_retry_after(OVER_BUDGET_RETRY_AFTER_S).into_response()
}

fn unknown<R>() -> Response<ResponseBody<R>> {
    let detail = "an earlier request with this key may or may not have taken effect, and nothing is \
                  executed under this key while its record is kept; find out whether it took effect \
                  before you use another key";
    Problem::new(Code::OutcomeUnknown, detail).into_response()
}

fn abandoned<R>() -> Response<ResponseBody<R>> {
    let detail = "an earlier request with this key was abandoned and counts as failed; check \
                  whether it took effect before you try again with a new key";
    Problem::new(Code::ExecutionAbandoned, detail).into_response()
}

/// The execution ended without a reply: it panicked.
fn interrupted<R>() -> Response<ResponseBody<R>> {
    let detail = "the execution ended without a reply; it may or may not have taken effect";
    Problem::new(Code::ExecutionInterrupted, detail).into_response()
}
