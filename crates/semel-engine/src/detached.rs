use semel_core::planted::{Bug, planted};
use semel_core::{Claim, InFlight, OnStoreDown, Outcome, Release};
use semel_store::StoreError;
use tokio::time::Instant;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::answer::Caller;
use crate::claiming::{ClaimState, LeaseProbe, NotClaimed};
use crate::execution::Work;
use crate::limits::Slot;
use crate::registry::{Joined, LeaseUse};
use crate::settling::{Write, finish, is_to_be_tried_again, write};
use crate::{Answer, EngineError, Execution};

mod duplicate;
mod planted_bugs;

/// One attempt from its claim to its answer.
///
/// It runs in a task of its own, the claim included: a claim whose future is dropped may have been
/// granted, and the grant would be lost (I9, trap 3).
///
/// Futures of rare paths are boxed, here and in the functions that this calls: unboxed they would make the
/// future of every attempt several times as large.
pub(crate) struct AttemptTask {
    pub(crate) claim: ClaimState,
    pub(crate) caller: Caller,
    /// Held while the attempt claims, executes or settles.
    pub(crate) slot: Option<Slot>,
    /// Held to the very end, for the shutdown to see.
    pub(crate) token: TaskTrackerToken,
}

// === impl AttemptTask ===

impl AttemptTask {
    /// Runs the attempt to its end, whether or not its caller is still there.
    #[expect(clippy::manual_async_fn, reason = "such a future has room for its arguments twice")]
    pub(crate) fn run(mut self, work: Work) -> impl Future<Output = ()> + Send {
        async move {
            let answer = self.attempt(work).await;
            if self.claim.is_in_doubt() {
                self.caller.answer(answer);
                Box::pin(release_if_granted(self.claim)).await;
                drop(self.slot);
            } else {
                // The slot first: a caller that has its answer must not find the attempt still running.
                drop(self.slot);
                self.claim.leave_quota();
                self.caller.answer(answer);
            }
            drop(self.token);
        }
    }

    async fn attempt(&mut self, work: Work) -> Result<Answer, EngineError> {
        if planted(Bug::ExecutesBeforeClaim) && Box::pin(self.seems_new()).await {
            return Box::pin(self.execute_before_claim(work)).await;
        }
        // Nothing is awaited while the claim's answer is held, so that the future has no room for it.
        let granted = match self.claim_or_wait().await {
            Ok(Claim::Execute(lease)) => match self.claim.hold(lease) {
                Some(keeper) => Ok(Box::new(keeper)),
                None => return Err(EngineError::Interrupted),
            },
            Ok(Claim::Replay { settlement, expires }) => {
                return Ok(Answer::Replayed { settlement, expires });
            }
            Ok(Claim::InFlight { until }) => return Ok(Answer::InFlight { until }),
            Ok(Claim::Mismatch) => return Ok(Answer::Mismatch),
            Ok(Claim::Unknown) => return Ok(Answer::Unknown { reply: None }),
            Err(NotClaimed::Store(error)) => Err(error),
            Err(NotClaimed::TooManyKeys(over)) => return Err(over.into()),
        };
        let mut keeper = match granted {
            Ok(keeper) => keeper,
            Err(error) => return Box::pin(self.without_store(error, work)).await,
        };
        if planted(Bug::ExecutionDiesWithClient) {
            return Box::pin(self.execute_until_left(keeper, work)).await;
        }
        let ended = keeper.keep_while(work(keeper.execution())).await;
        let outcome = self.claim.outcome_of(ended);
        let answer = finish(&mut keeper, outcome, &mut self.caller).await;
        self.claim.spend(&answer);
        // The lease of an execution must not be found later, and released as if nothing had been executed (trap 6).
        if !matches!(answer, Answer::Released { .. } | Answer::InFlight { .. }) {
            self.claim.end_doubt();
        }
        Ok(answer)
    }

    /// Claims, and waits if the record is in flight and the policy says so.
    async fn claim_or_wait(&mut self) -> Result<Claim, NotClaimed> {
        // The listener comes before the claim, or an outcome that is settled in between would be missed.
        let waits = match self.claim.policy().in_flight() {
            InFlight::Wait(timeout) => {
                let listener = self.claim.context().registry.listen(self.claim.id());
                Some((listener, Instant::now() + timeout))
            }
            InFlight::Conflict | InFlight::Accepted => None,
        };
        let waiting = match (self.claim.claim_with_retries().await?, waits) {
            // The wait outlasts passing errors, so that no waiter executes without protection.
            (Claim::InFlight { until }, Some((listener, deadline))) => {
                Box::pin(self.wait(listener, until, deadline))
            }
            (claim, waits) => {
                if waits.is_some() {
                    self.share(&claim);
                }
                return Ok(claim);
            }
        };
        waiting.await
    }

    /// The claim failed. The policy decides whether the work executes without the store.
    async fn without_store(
        &mut self,
        error: StoreError,
        work: Work,
    ) -> Result<Answer, EngineError> {
        let id = self.claim.id();
        // Only an outage counts. In a damaged store the record that cannot be read may be settled; where the store
        // declines, an execution may have the record locked.
        let open = self.claim.policy().on_store_down() == OnStoreDown::Open;
        if !open || !error.is_outage() {
            return Err(error.into());
        }
        // The registry knows duplicates of this process without the store.
        if let Err(joined) = self.claim.hold_unprotected() {
            return match joined {
                Joined { is_same_request: false, .. } => Ok(Answer::Mismatch),
                Joined { until, .. } if self.claim.context().registry.executes(id) => {
                    Ok(Answer::InFlight { until })
                }
                // This process is releasing a lease, which does not show the state of the record.
                Joined { .. } => Err(error.into()),
            };
        }
        self.claim.context().lines.bypassed.line(|left_out| {
            let record = id.prefix();
            tracing::warn!(record, %error, left_out, "executing without protection");
        });
        let outcome = self.claim.outcome_of(work(Execution::bypassed(id)).await);
        let answer = Answer::Bypassed { outcome: outcome.clone() };
        self.caller.answer(Ok(answer.clone()));
        self.record_unprotected(outcome).await;
        Ok(answer)
    }

    /// Records the outcome under a lease whose grant was not acknowledged, if there is one. The work was executed, so
    /// a release would allow a second execution (trap 6). Until the outcome is recorded, a retry joins.
    /// The same applies to a lease that another attempt of this process was granted meanwhile, and to every later one:
    /// the first record may have expired when another copy of the claim arrives.
    async fn record_unprotected(&mut self, outcome: Outcome) {
        let is_over = is_to_be_tried_again(&outcome, self.claim.policy());
        if is_over {
            self.claim.leave_unprotected();
        }
        let mut probe = LeaseProbe::begin();
        while let Some(lease) = self.claim.find_lease(&mut probe).await {
            if let Some(mut keeper) = self.claim.hold_found(lease, LeaseUse::Execution) {
                let answer = finish(&mut keeper, outcome.clone(), &mut self.caller).await;
                self.claim.spend(&answer);
            }
        }
        self.claim.leave_unprotected();
    }
}

/// Ends an attempt that executed nothing, or has released its lease. If a claim of it was granted without
/// acknowledgement, that lease is released too, so that no retry has to wait until it runs out.
async fn release_if_granted(mut claim: ClaimState) {
    let mut probe = LeaseProbe::begin();
    while let Some(lease) = claim.find_lease(&mut probe).await {
        let Some(mut keeper) = claim.hold_found(lease, LeaseUse::Release) else { continue };
        claim.context().lines.unacknowledged.line(|left_out| {
            let record = claim.id().prefix();
            tracing::info!(record, left_out, "releasing a lease whose grant was not acknowledged");
        });
        let _ = write(&mut keeper, &Write::Release(Release::Retry), |_| ()).await;
    }
}
