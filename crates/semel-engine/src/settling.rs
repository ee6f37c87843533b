use std::time::Duration;

use semel_core::{OnUnknown, Outcome, Policy, Refusal, Release, Settlement};
use semel_planted::{Bug, planted};
use semel_store::{Released, Settled, StoreError};
use tokio::time::Instant;

use crate::answer::Caller;
use crate::backoff::Backoff;
use crate::engine::Shared;
use crate::registry::{News, Source};
use crate::renewal::Tenure;
use crate::waiting::fenced_off;
use crate::{Answer, Stored};

/// How often a write is tried before the caller is told the outcome without it.
const TRIES_BEFORE_ANSWER: u32 = 3;

/// The longest pause after an error that will not pass by itself: an operator has to look first.
const BROKEN_MAX: Duration = Duration::from_secs(30);

/// What the end of an execution writes under its fence.
#[derive(Debug)]
pub(crate) enum Write {
    Settle(Settlement),
    Release(Release),
}

/// What became of a write.
#[derive(Debug)]
pub(crate) enum Landed {
    /// It is durable.
    Done,
    /// The lease no longer counts.
    Refused(Refusal),
    /// The store stayed away for the record's whole retention.
    GivenUp,
}

/// Ends an execution: writes its outcome, then says what to answer.
///
/// The outcome is durable before it is answered (I6, trap 4). Only if the store is lost is the
/// caller answered first, and then this goes on until the write lands; what it returns after that
/// is no longer heard.
pub(crate) async fn conclude(tenure: &mut Tenure, outcome: Outcome, caller: &mut Caller) -> Answer {
    let write = Write::of(&outcome, tenure.policy().on_unknown());
    if let Write::Release(Release::Retry) = write {
        tenure.returns();
    }
    if planted(Bug::AnswerBeforeSettle) {
        caller.answer(Ok(own_answer(tenure, &outcome, Stored::Durable)));
    }
    let landed = loop {
        let landed = land(tenure, &write, |tenure| {
            caller.answer(Ok(own_answer(tenure, &outcome, Stored::NotYet)));
        })
        .await;
        // Superseded by this very process: what it has executed is recorded under its newer lease.
        let is_superseded = matches!(landed, Landed::Refused(Refusal::Superseded));
        let on_delay = |tenure: &Tenure| {
            caller.answer(Ok(own_answer(tenure, &outcome, Stored::NotYet)));
        };
        if !is_superseded || !Box::pin(tenure.adopts_newer_lease(on_delay)).await {
            break landed;
        }
    };
    match landed {
        Landed::Done => {
            tenure.publish(news_of(tenure, write));
            own_answer(tenure, &outcome, Stored::Durable)
        }
        Landed::GivenUp => own_answer(tenure, &outcome, Stored::NotYet),
        Landed::Refused(refusal) => {
            // Not the refusal itself: it may hold a reply (trap 24).
            let (record, answered) = (tenure.lease().id().prefix(), !caller.is_waiting());
            tracing::warn!(%record, answered, "the lease was lost before the outcome was written");
            Box::pin(refused(tenure, &outcome, refusal, caller)).await
        }
    }
}

/// Makes a write durable, for as long as it takes, while keeping the lease alive: never is the
/// claim dropped (I6). Bounded by the record's retention, after which there is nothing to write to.
///
/// `on_delay` is called once, when the caller should not wait any longer.
pub(crate) async fn land(
    tenure: &mut Tenure,
    write: &Write,
    on_delay: impl FnOnce(&Tenure),
) -> Landed {
    let began = Instant::now();
    let limit = tenure.verb_timeout().min(tenure.shared().limits.settle_patience);
    match write.send(tenure, limit).await {
        Ok(landed) => return landed,
        Err(error) => not_yet_written(tenure, 1, &error),
    }
    if planted(Bug::GivesUpSettling) {
        return Landed::GivenUp;
    }
    // Boxed, being rare and large: see `Errand`.
    Box::pin(land_at_last(tenure, write, on_delay, began)).await
}

/// The same after a first try has failed.
async fn land_at_last(
    tenure: &mut Tenure,
    write: &Write,
    on_delay: impl FnOnce(&Tenure),
    began: Instant,
) -> Landed {
    let patience = tenure.shared().limits.settle_patience;
    let mut on_delay = Some(on_delay);
    let mut backoff = Backoff::new(Duration::from_millis(20), Shared::RETRY_MAX);
    for tries in 2_u32.. {
        let waited = began.elapsed();
        let waited_enough = tries > TRIES_BEFORE_ANSWER || waited >= patience;
        if let Some(on_delay) = on_delay.take_if(|_| waited_enough) {
            on_delay(tenure);
        }
        if waited >= tenure.policy().ttl() {
            break;
        }
        let shared = tenure.shared().clone();
        let pause = backoff.pause(&*shared.host);
        let id = tenure.lease().id();
        tenure.keep_while(shared.rest(id, pause)).await;
        let mut limit = tenure.verb_timeout();
        if on_delay.is_some() {
            limit = limit.min(patience.saturating_sub(began.elapsed()));
        }
        // Only the write's own answer counts. A refused renewal does not: it is also what follows
        // when an earlier try of this write had landed unheard.
        match write.send(tenure, limit).await {
            Ok(landed) => {
                tracing::info!(record = %tenure.lease().id().prefix(), tries, "written at last");
                return landed;
            }
            Err(error) => {
                not_yet_written(tenure, tries, &error);
                backoff.set_cap(if error.is_passing() { Shared::RETRY_MAX } else { BROKEN_MAX });
            }
        }
    }
    Landed::GivenUp
}

fn not_yet_written(tenure: &Tenure, tries: u32, error: &StoreError) {
    let record = tenure.lease().id().prefix();
    // An outage has a line for each holder and about a second: ever fewer of them are warnings.
    if tries.is_power_of_two() {
        tracing::warn!(record, tries, %error, "not yet written");
    } else {
        tracing::debug!(record, tries, %error, "not yet written");
    }
}

/// What a holder answers whose write was refused (I4).
async fn refused(
    tenure: &mut Tenure,
    outcome: &Outcome,
    refusal: Refusal,
    caller: &mut Caller,
) -> Answer {
    match refusal {
        Refusal::Settled { settlement, expires } => {
            tenure.publish(News::Settled {
                fingerprint: tenure.lease().fingerprint(),
                settlement: settlement.clone(),
                expires,
                source: Source::Holder,
            });
            Answer::Replayed { settlement, expires }
        }
        Refusal::Superseded => fenced_off(tenure, caller)
            .await
            .unwrap_or_else(|| own_answer(tenure, outcome, Stored::Gone)),
        Refusal::Gone => own_answer(tenure, outcome, Stored::Gone),
    }
}

/// The answer that the outcome of this execution itself amounts to.
fn own_answer(tenure: &Tenure, outcome: &Outcome, stored: Stored) -> Answer {
    let fence = tenure.executed_under();
    let executed = |settlement| Answer::Executed {
        settlement,
        expires: tenure.lease().expires(),
        fence,
        stored,
    };
    match (outcome, tenure.policy().on_unknown()) {
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

fn news_of(tenure: &Tenure, write: Write) -> News {
    match write {
        Write::Settle(settlement) => News::Settled {
            fingerprint: tenure.lease().fingerprint(),
            settlement,
            expires: tenure.lease().expires(),
            source: Source::Holder,
        },
        Write::Release(_) => News::LookAgain,
    }
}

// === impl Write ===

impl Write {
    /// What an outcome writes: only what surely did not happen is tried again (trap 6), unless the
    /// policy says that unknown may be.
    fn of(outcome: &Outcome, on_unknown: OnUnknown) -> Self {
        match (outcome, on_unknown) {
            (Outcome::Completed(reply), _) => Self::Settle(Settlement::Completed(reply.clone())),
            (Outcome::Failed(reply), _) => Self::Settle(Settlement::Failed(reply.clone())),
            (Outcome::Unknown(_), OnUnknown::Hold) => Self::Release(Release::Hold),
            (Outcome::FailedForNow(_) | Outcome::Unknown(_), _) => Self::Release(Release::Retry),
        }
    }

    async fn send(&self, tenure: &Tenure, limit: Duration) -> Result<Landed, StoreError> {
        let (store, lease) = (&tenure.shared().store, tenure.lease());
        match self {
            Self::Settle(settlement) => {
                let call = store.settle(lease, settlement.clone());
                Ok(match tenure.shared().within(limit, "settle", lease.id(), call).await? {
                    Settled::Recorded => Landed::Done,
                    Settled::Refused(refusal) => Landed::Refused(refusal),
                })
            }
            Self::Release(how) => {
                let call = store.release(lease, *how);
                Ok(match tenure.shared().within(limit, "release", lease.id(), call).await? {
                    Released::Done => Landed::Done,
                    Released::Refused(refusal) => Landed::Refused(refusal),
                })
            }
        }
    }
}
