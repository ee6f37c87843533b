use std::time::Duration;

use semel_core::planted::{Bug, planted};
use semel_core::{OnUnknown, Outcome, Policy, Refusal, Release, Settlement};
use semel_store::{Released, Settled, StoreError};
use tokio::time::Instant;

use crate::answer::Caller;
use crate::backoff::Backoff;
use crate::context::EngineContext;
use crate::registry::{Notification, Source};
use crate::renewal::LeaseKeeper;
use crate::{Answer, Stored};

mod superseded;

/// How often a write is tried before the caller gets the outcome with [`Stored::NotYet`].
const TRIES_BEFORE_ANSWER: u32 = 3;

/// The longest pause after an error that does not pass by itself: an operator has to act first.
const BROKEN_MAX: Duration = Duration::from_secs(30);

/// The write that ends an execution, under its fence.
#[derive(Debug)]
pub(crate) enum Write {
    Settle(Settlement),
    Release(Release),
}

/// The result of a write.
#[derive(Debug)]
pub(crate) enum WriteResult {
    /// It is durable.
    Done,
    /// The lease no longer counts.
    Refused(Refusal),
    /// The store stayed away for the record's whole retention.
    GivenUp,
}

/// Ends an execution: writes its outcome, then returns the answer.
///
/// The outcome is durable before it is answered (I6, trap 4). Only if the store is lost is the
/// caller answered first. Then the write is repeated until it is durable, and the answer that this
/// returns is dropped.
pub(crate) async fn finish(
    keeper: &mut LeaseKeeper,
    outcome: Outcome,
    caller: &mut Caller,
) -> Answer {
    let end = Write::of(&outcome, keeper.policy().on_unknown());
    if let Write::Release(Release::Retry) = end {
        keeper.begin_release();
    }
    if planted(Bug::AnswerBeforeSettle) {
        caller.answer(Ok(own_answer(keeper, &outcome, Stored::Durable)));
    }
    let written = loop {
        let written = write(keeper, &end, |keeper| {
            caller.answer(Ok(own_answer(keeper, &outcome, Stored::NotYet)));
        })
        .await;
        // If this process superseded itself, the outcome is recorded under its newer lease.
        let is_superseded = matches!(written, WriteResult::Refused(Refusal::Superseded));
        let on_delay = |keeper: &LeaseKeeper| {
            caller.answer(Ok(own_answer(keeper, &outcome, Stored::NotYet)));
        };
        if !is_superseded || !Box::pin(keeper.adopts_newer_lease(on_delay)).await {
            break written;
        }
    };
    match written {
        WriteResult::Done => {
            keeper.publish(notification_of(keeper, end));
            own_answer(keeper, &outcome, Stored::Durable)
        }
        WriteResult::GivenUp => own_answer(keeper, &outcome, Stored::NotYet),
        WriteResult::Refused(refusal) => {
            // The refusal itself is not logged: it may hold a reply (trap 24).
            let (record, answered) = (keeper.lease().id().prefix(), !caller.is_waiting());
            keeper.context().lines.lost.line(|left_out| {
                let what = "the lease was lost before the outcome was written";
                tracing::warn!(record, answered, left_out, "{what}");
            });
            Box::pin(refused(keeper, &outcome, refusal, caller)).await
        }
    }
}

/// Makes a write durable, however long that takes, while the lease is kept alive: the claim is never
/// dropped (I6). The limit is the record's retention, after which there is nothing to write to.
///
/// `on_delay` is called once, when the caller should not wait any longer.
pub(crate) async fn write(
    keeper: &mut LeaseKeeper,
    end: &Write,
    on_delay: impl FnOnce(&LeaseKeeper),
) -> WriteResult {
    let began = Instant::now();
    let limit = keeper.verb_timeout().min(keeper.context().limits.settle_timeout);
    match end.send(keeper, limit).await {
        Ok(written) => return written,
        Err(error) => not_yet_written(keeper, 1, &error),
    }
    if planted(Bug::GivesUpSettling) {
        return WriteResult::GivenUp;
    }
    // Boxed, since it is rare and large: see `AttemptTask`.
    Box::pin(write_with_retry(keeper, end, on_delay, began)).await
}

/// The same after a first try has failed.
async fn write_with_retry(
    keeper: &mut LeaseKeeper,
    end: &Write,
    on_delay: impl FnOnce(&LeaseKeeper),
    began: Instant,
) -> WriteResult {
    let settle_timeout = keeper.context().limits.settle_timeout;
    let mut on_delay = Some(on_delay);
    let mut backoff = Backoff::new(Duration::from_millis(20), EngineContext::RETRY_MAX);
    for tries in 2_u32.. {
        let waited = began.elapsed();
        let waited_enough = tries > TRIES_BEFORE_ANSWER || waited >= settle_timeout;
        if let Some(on_delay) = on_delay.take_if(|_| waited_enough) {
            on_delay(keeper);
        }
        if waited >= keeper.policy().ttl() {
            break;
        }
        let context = keeper.context().clone();
        let pause = backoff.pause(&*context.host);
        let id = keeper.lease().id();
        keeper.keep_while(context.rest(id, pause)).await;
        let mut limit = keeper.verb_timeout();
        if on_delay.is_some() {
            limit = limit.min(settle_timeout.saturating_sub(began.elapsed()));
        }
        // Only the write's own answer counts. A refused renewal does not: an earlier try of this write
        // that succeeded without acknowledgement has the same effect.
        match end.send(keeper, limit).await {
            Ok(written) => {
                keeper.context().lines.written.line(|left_out| {
                    let record = keeper.lease().id().prefix();
                    tracing::info!(record, tries, left_out, "written after retries");
                });
                return written;
            }
            Err(error) => {
                not_yet_written(keeper, tries, &error);
                backoff.set_cap(if error.is_passing() {
                    EngineContext::RETRY_MAX
                } else {
                    BROKEN_MAX
                });
            }
        }
    }
    WriteResult::GivenUp
}

fn not_yet_written(keeper: &LeaseKeeper, tries: u32, error: &StoreError) {
    let record = keeper.lease().id().prefix();
    // In an outage there is one for each holder and about a second.
    tracing::debug!(record, tries, %error, "writing again");
    keeper.context().lines.not_written.line(|left_out| {
        tracing::warn!(record, tries, %error, left_out, "not yet written");
    });
}

/// The answer of a holder whose write was refused (I4).
async fn refused(
    keeper: &mut LeaseKeeper,
    outcome: &Outcome,
    refusal: Refusal,
    caller: &mut Caller,
) -> Answer {
    match refusal {
        Refusal::Settled { settlement, expires } => {
            keeper.publish(Notification::Settled {
                fingerprint: keeper.lease().fingerprint(),
                settlement: settlement.clone(),
                expires,
                source: Source::Holder,
            });
            Answer::Replayed { settlement, expires }
        }
        Refusal::Superseded => superseded::answer_of_newer_holder(keeper, caller)
            .await
            .unwrap_or_else(|| own_answer(keeper, outcome, Stored::Gone)),
        Refusal::Gone => own_answer(keeper, outcome, Stored::Gone),
    }
}

/// The answer with the outcome of this execution itself.
fn own_answer(keeper: &LeaseKeeper, outcome: &Outcome, stored: Stored) -> Answer {
    let fence = keeper.executed_under();
    let executed = |settlement| Answer::Executed {
        settlement,
        expires: keeper.lease().expires(),
        fence,
        stored,
    };
    match (outcome, keeper.policy().on_unknown()) {
        (Outcome::Completed(reply), _) => executed(Settlement::Completed(reply.clone())),
        (Outcome::Failed(reply), _) => executed(Settlement::Failed(reply.clone())),
        (Outcome::Unknown(reply), OnUnknown::Hold) => {
            Answer::Unknown { reply: Some(reply.clone()) }
        }
        (Outcome::FailedForNow(_) | Outcome::Unknown(_), _) => {
            Answer::Released { outcome: outcome.clone(), fence }
        }
    }
}

/// Whether a retry may execute again after this outcome.
pub(crate) fn is_to_be_tried_again(outcome: &Outcome, policy: &Policy) -> bool {
    matches!(Write::of(outcome, policy.on_unknown()), Write::Release(Release::Retry))
}

fn notification_of(keeper: &LeaseKeeper, end: Write) -> Notification {
    match end {
        Write::Settle(settlement) => Notification::Settled {
            fingerprint: keeper.lease().fingerprint(),
            settlement,
            expires: keeper.lease().expires(),
            source: Source::Holder,
        },
        Write::Release(_) => Notification::Changed,
    }
}

// === impl Write ===

impl Write {
    /// The write of an outcome. Only work that surely had no effect may be tried again (trap 6), unless the
    /// policy allows it for unknown outcomes.
    fn of(outcome: &Outcome, on_unknown: OnUnknown) -> Self {
        match (outcome, on_unknown) {
            (Outcome::Completed(reply), _) => Self::Settle(Settlement::Completed(reply.clone())),
            (Outcome::Failed(reply), _) => Self::Settle(Settlement::Failed(reply.clone())),
            (Outcome::Unknown(_), OnUnknown::Hold) => Self::Release(Release::Hold),
            (Outcome::FailedForNow(_) | Outcome::Unknown(_), _) => Self::Release(Release::Retry),
        }
    }

    async fn send(&self, keeper: &LeaseKeeper, limit: Duration) -> Result<WriteResult, StoreError> {
        let (store, lease) = (&keeper.context().store, keeper.lease());
        match self {
            Self::Settle(settlement) => {
                let call = store.settle(lease, settlement.clone());
                Ok(match keeper.context().within(limit, "settle", lease.id(), call).await? {
                    Settled::Recorded => WriteResult::Done,
                    Settled::Refused(refusal) => WriteResult::Refused(refusal),
                })
            }
            Self::Release(how) => {
                let call = store.release(lease, *how);
                Ok(match keeper.context().within(limit, "release", lease.id(), call).await? {
                    Released::Done => WriteResult::Done,
                    Released::Refused(refusal) => WriteResult::Refused(refusal),
                })
            }
        }
    }
}
