//! The response for an engine's answer.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::header::{HeaderMap, HeaderValue};
use http::{Response, Version};
use semel_core::{RecordId, Settlement, Timestamp};
use semel_engine::{Answer, EngineError, Stored};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::body_budget::BodyBudget;
use super::execute::LiveResponse;
use super::rejected::close;
use super::rejection::Rejection;
use super::replay::{self, ReplayError};
use super::{ResponseBody, StoreClock};
use crate::headers;
use crate::observe::{Decided, LiveRoute};
use crate::retry_after::{Holder, InFlightLease};

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
        let no_reply = || Rejection::NoReply.response(policy);
        match answer {
            Answer::Executed { expires, stored, .. } => {
                let mut response = live.unwrap_or_else(no_reply);
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
            Answer::Released { .. } => (Decided::Released, live.unwrap_or_else(no_reply)),
            Answer::Replayed { settlement, expires } => {
                // The reply of a fenced holder is not needed; dropping it returns its budget.
                drop(live);
                self.replay(&settlement, expires)
            }
            Answer::InFlight { until } => self.rejected(&self.in_flight(until)),
            Answer::Mismatch => self.rejected(&Rejection::Mismatch),
            // Without a reply it is another attempt's outcome that is unknown: a fenced holder
            // does not answer with its own (I4).
            Answer::Unknown { reply: None } => self.rejected(&Rejection::OutcomeUnknown),
            Answer::Unknown { reply: Some(_) } => {
                let unknown = || Rejection::OutcomeUnknown.response(policy);
                (Decided::Held, live.unwrap_or_else(unknown))
            }
            Answer::Bypassed { .. } => {
                let mut response = live.unwrap_or_else(no_reply);
                response.headers_mut().insert(headers::BYPASSED, headers::TRUE);
                (Decided::Bypassed, response)
            }
        }
    }

    pub(crate) fn refused<R>(&self, error: &EngineError) -> (Decided, Response<ResponseBody<R>>) {
        let (decided, mut response) = self.rejected(&error.into());
        if matches!(error, EngineError::ShuttingDown) {
            close(response.headers_mut(), self.version);
        }
        (decided, response)
    }

    fn rejected<R>(&self, why: &Rejection) -> (Decided, Response<ResponseBody<R>>) {
        (why.decided(), why.response(self.route.policy()))
    }

    /// Another attempt has the lease until then.
    fn in_flight(&self, until: Timestamp) -> Rejection {
        let policy = &self.route.policy().core;
        let (lease, usual) = (policy.lease(), self.route.latency.usual());
        let (now, is_own) = (self.clock.now(), self.is_own);
        let (holder, retry_after_s) =
            InFlightLease { until, now, lease, usual, is_own }.retry_after();
        match holder {
            Holder::Renewing => Rejection::InProgress { retry_after_s },
            Holder::Overdue => Rejection::Overdue { retry_after_s },
        }
    }

    /// The replay of the recorded outcome.
    fn replay<R>(
        &self,
        settlement: &Settlement,
        expires: Timestamp,
    ) -> (Decided, Response<ResponseBody<R>>) {
        let reply = settlement.reply().map(|reply| replay::replay(reply, self.budget)).transpose();
        let mut response = match reply {
            Ok(response) => {
                response.unwrap_or_else(|| Rejection::Abandoned.response(self.route.policy()))
            }
            Err(why) => return self.not_replayed(why),
        };
        let headers = response.headers_mut();
        for (name, value) in &self.route.policy().replay_headers {
            headers.insert(name, value.clone());
        }
        expire(headers, expires);
        (Decided::Replayed, response)
    }

    /// The work was done: it is not executed again, even if its reply cannot be returned.
    pub(crate) fn not_replayed<R>(&self, why: ReplayError) -> (Decided, Response<ResponseBody<R>>) {
        if let ReplayError::Unreadable(error) = &why {
            self.route.lines.unreadable.line(|left_out| {
                let record = self.id.prefix();
                tracing::error!(record, %error, left_out, "the stored reply cannot be read");
            });
        }
        self.rejected(&why.into())
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
