//! Attempts that a handler claims, executes and settles in a transaction of its own.

mod detached;
mod layer;

pub use layer::{IdempotentLayer, IdempotentService};

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Response, Version};
use semel_core::{Fingerprint, Outcome, Policy, RecordId, Reply};
use semel_engine::{Answer, EngineError};
use tokio::time::Instant;

use super::answer::{Answered, is_own};
use super::body_budget::BodyBudget;
use super::outcome::outcome_of_whole;
use super::replay::{self, ReplayError};
use super::{ReplyBody, ResponseBody, StoreClock};
use crate::observe::LiveRoute;

/// An attempt that its handler claims: an extension of each request that an [`IdempotentLayer`] has
/// admitted. A request without it needs no key and brought none, or its route is not to be
/// protected.
///
/// The handler claims [`id`](Self::id) with [`fingerprint`](Self::fingerprint) under
/// [`policy`](Self::policy). If it may execute, it does its work, settles the
/// [`outcome`](Self::outcome) of its response and commits, all in one transaction. It passes the
/// answer to [`respond`](Self::respond), or to [`refuse`](Self::refuse) if the database
/// failed. That last call counts and logs the attempt.
///
/// Clones are cheap, and are the same attempt.
#[derive(Clone)]
pub struct IdempotentRequest(Arc<Inner>);

struct Inner {
    route: Arc<LiveRoute>,
    id: RecordId,
    fingerprint: Fingerprint,
    began: Instant,
    version: Version,
    budget: Arc<BodyBudget>,
    own: Mutex<Option<OwnResponse>>,
}

/// The response of this attempt's own execution. The record may keep less of it.
struct OwnResponse {
    /// What the record keeps, by which an answer shows that it is about this response.
    reply: Reply,
    response: Response<ReplyBody>,
    took: Duration,
}

// === impl IdempotentRequest ===

impl IdempotentRequest {
    /// The record of this attempt.
    pub fn id(&self) -> RecordId {
        self.0.id
    }

    /// What must be equal when the key comes again.
    pub fn fingerprint(&self) -> Fingerprint {
        self.0.fingerprint
    }

    /// The rules of its route. `on_store_down` has no effect here: without the database there is
    /// no transaction to execute in, so a route cannot fail open.
    pub fn policy(&self) -> &Policy {
        &self.0.route.policy().core
    }

    /// What a response means by the policy of the route: its status says whether the reply is kept,
    /// unless it has an [`OutcomeKind`](crate::OutcomeKind) among its extensions.
    ///
    /// The outcome carries what the record keeps: all end-to-end headers, a `Date`, the exact bytes
    /// of the body, the id of what was made. Cookies are left out unless the route replays them, and
    /// so is a body over `max_reply_body`. The response itself is held for
    /// [`respond`](Self::respond), so the client of this attempt gets all of it.
    ///
    /// If a transaction has to be repeated, so has this call: the latest counts. The metrics take
    /// the time up to it for that of the execution, the claim included, and the rest for added.
    pub fn outcome<B: Into<Bytes>>(&self, response: Response<B>) -> Outcome {
        let Inner { route, budget, began, .. } = &*self.0;
        let (kind, reply, response) =
            outcome_of_whole(response.map(Into::into), route.policy(), budget);
        let took = began.elapsed();
        route.latency.note(took);
        let own = OwnResponse { reply: reply.clone(), response, took };
        *self.own() = Some(own);
        kind.with(reply)
    }

    /// The response for the client, as [`SemelLayer`](crate::SemelLayer) gives it: the handler's own
    /// if it executed, its replay if another did, or a [`Problem`](crate::problem::Problem).
    ///
    /// Call it once, after the commit (I6).
    pub fn respond(&self, answer: Answer) -> Response<ReplyBody> {
        let (answered, own) = (self.answered(), self.own().take());
        let took = own.as_ref().map(|own| own.took);
        // Without it the time of the work is unknown.
        if took.is_some() || !is_own(&answer) {
            answered.route.timed(took, answered.began.elapsed());
        }
        answered.record_decision(match self.live(&answer, own) {
            Ok(live) => answered.answered(answer, live),
            Err(why) => answered.not_replayed(why),
        })
    }

    /// The response when the database failed: 503 `idempotency_store_unavailable` for a
    /// [`StoreError`](semel_store::StoreError) that had no effect, which says that nothing was
    /// executed.
    ///
    /// If the commit may have taken effect, that would not be true. For
    /// [`StoreError::TimedOut`](semel_store::StoreError::TimedOut) and
    /// [`EngineError::Interrupted`] it is 500 `execution_interrupted`: a retry with the same key is
    /// replayed or executes, whichever is right.
    pub fn refuse(&self, error: impl Into<EngineError>) -> Response<ReplyBody> {
        self.refused(&error.into())
    }

    fn refused<R>(&self, error: &EngineError) -> Response<ResponseBody<R>> {
        let (answered, own) = (self.answered(), self.own().take());
        answered.route.lines.failed.line(|left_out| {
            tracing::warn!(record = %answered.id.prefix(), %error, left_out, "refused");
        });
        answered.route.timed(own.map(|own| own.took), answered.began.elapsed());
        answered.record_decision(match error {
            // The transaction may have been committed.
            EngineError::Store(error) if error.maybe_applied() => {
                answered.refused(&EngineError::Interrupted)
            }
            error => answered.refused(error),
        })
    }

    fn answered(&self) -> Answered<'_> {
        let Inner { route, id, began, version, budget, .. } = &*self.0;
        // What is in flight is a transaction, which has no lease that could end.
        let clock = &StoreClock::UNKNOWN;
        let (id, began, version) = (*id, *began, *version);
        Answered { route, id, began, version, budget, clock, is_own: false }
    }

    fn own(&self) -> MutexGuard<'_, Option<OwnResponse>> {
        self.0.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What this attempt's own execution gave, if the answer is about that (I4).
    fn live(
        &self,
        answer: &Answer,
        own: Option<OwnResponse>,
    ) -> Result<Option<Response<ReplyBody>>, ReplayError> {
        match (answer.reply().filter(|_| is_own(answer)), own) {
            (Some(reply), Some(own)) if *reply == own.reply => Ok(Some(own.response)),
            // An execution that ended without a reply has none to give.
            (Some(reply), _) if !reply.bytes().is_empty() => {
                replay::own(reply, &self.0.budget).map(Some)
            }
            _ => Ok(None),
        }
    }
}

impl fmt::Debug for IdempotentRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IdempotentRequest({})", self.0.id.prefix())
    }
}
