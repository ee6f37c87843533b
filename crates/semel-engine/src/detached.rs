use semel_core::{Claim, InFlight, OnStoreDown, Outcome};
use semel_planted::{Bug, planted};
use semel_store::StoreError;
use tokio::time::Instant;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::answer::Caller;
use crate::claiming::{Claimant, Looks};
use crate::execution::{Work, outcome_of};
use crate::limits::Slot;
use crate::registry::{Joined, Purpose};
use crate::settling::{conclude, is_to_be_tried_again};
use crate::{Answer, EngineError, Execution};

/// One attempt from its claim to its answer.
///
/// It runs in a task of its own, the claim included: a claim whose future is dropped may have been
/// granted, and then nobody would know (I9, trap 3).
///
/// The ways that few attempts take are boxed, here and in what this calls: they would make the
/// future of every attempt several times as large.
pub(crate) struct Errand {
    pub(crate) claimant: Claimant,
    pub(crate) caller: Caller,
    /// Held while the attempt claims, executes or settles.
    pub(crate) slot: Option<Slot>,
    /// Held to the very end, for the shutdown to see.
    pub(crate) token: TaskTrackerToken,
}

// === impl Errand ===

impl Errand {
    /// Runs the attempt to its end, whether or not its caller is still there.
    #[expect(clippy::manual_async_fn, reason = "such a future has room for its arguments twice")]
    pub(crate) fn run(mut self, work: Work) -> impl Future<Output = ()> + Send {
        async move {
            let answer = self.attempt(work).await;
            if self.claimant.is_in_doubt() {
                self.caller.answer(answer);
                Box::pin(self.claimant.forsake()).await;
                drop(self.slot);
            } else {
                // First: whoever has the answer must not find the attempt still running.
                drop(self.slot);
                self.caller.answer(answer);
            }
            drop(self.token);
        }
    }

    async fn attempt(&mut self, work: Work) -> Result<Answer, EngineError> {
        if planted(Bug::ExecutesBeforeClaim) && Box::pin(self.seems_new()).await {
            return Box::pin(self.execute_before_claim(work)).await;
        }
        // Nothing is awaited while the claim's answer is held, so that there need be no room for it.
        let granted = match self.claim().await {
            Ok(Claim::Execute(lease)) => match self.claimant.take_up(lease) {
                Some(tenure) => Ok(Box::new(tenure)),
                None => return Err(EngineError::Interrupted),
            },
            Ok(Claim::Replay { settlement, expires }) => {
                return Ok(Answer::Replayed { settlement, expires });
            }
            Ok(Claim::InFlight { until }) => return Ok(Answer::InFlight { until }),
            Ok(Claim::Mismatch) => return Ok(Answer::Mismatch),
            Ok(Claim::Unknown) => return Ok(Answer::Unknown { reply: None }),
            Err(error) => Err(error),
        };
        let mut tenure = match granted {
            Ok(tenure) => tenure,
            Err(error) => return Box::pin(self.without_store(error, work)).await,
        };
        if planted(Bug::ExecutionDiesWithClient) {
            return Box::pin(self.execute_until_left(tenure, work)).await;
        }
        let ended = tenure.keep_while(work(tenure.execution())).await;
        let outcome = outcome_of(self.claimant.id(), ended);
        let answer = conclude(&mut tenure, outcome, &mut self.caller).await;
        // What was executed must not be looked for, and handed back as if it had not been (trap 6).
        if !matches!(answer, Answer::Released { .. } | Answer::InFlight { .. }) {
            self.claimant.end_doubt();
        }
        Ok(answer)
    }

    /// Claims, and waits if the record is in flight and the policy says so.
    async fn claim(&mut self) -> Result<Claim, StoreError> {
        // Before the claim, or an outcome that is settled in between would be missed.
        let waits = match self.claimant.policy().in_flight() {
            InFlight::Wait(timeout) => {
                let listener = self.claimant.shared().registry.listen(self.claimant.id());
                Some((listener, Instant::now() + timeout))
            }
            InFlight::Conflict | InFlight::Accepted => None,
        };
        let waiting = match (self.claimant.claim().await?, waits) {
            // It sits out whatever passes, so nobody who has waited executes without protection.
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

    /// The store could not be asked: the policy says whether the work executes all the same.
    async fn without_store(
        &mut self,
        error: StoreError,
        work: Work,
    ) -> Result<Answer, EngineError> {
        let id = self.claimant.id();
        // A damaged store is not one that is away: the record that cannot be read may be settled. Nor is one that
        // declines: an execution may have the record locked.
        let open = self.claimant.policy().on_store_down() == OnStoreDown::Open;
        if !open || !error.is_outage() {
            return Err(error.into());
        }
        // Duplicates within this process are known without a store.
        if let Err(joined) = self.claimant.hold_unprotected() {
            return match joined {
                Joined { is_same_request: false, .. } => Ok(Answer::Mismatch),
                Joined { until, .. } if self.claimant.shared().registry.executes(id) => {
                    Ok(Answer::InFlight { until })
                }
                // A lease of this process is being handed back, which says nothing of the record.
                Joined { .. } => Err(error.into()),
            };
        }
        tracing::warn!(record = %id.prefix(), %error, "executing without protection");
        let outcome = outcome_of(id, work(Execution::bypassed(id)).await);
        let answer = Answer::Bypassed { outcome: outcome.clone() };
        self.caller.answer(Ok(answer.clone()));
        self.record_unprotected(outcome).await;
        Ok(answer)
    }

    /// If the claim was granted unheard, its lease is not an orphan: the work was executed, so releasing it
    /// would invite a second execution (trap 6). Its outcome is recorded instead, and until then a retry joins.
    /// The same goes for a lease that another attempt of this process was granted meanwhile, and for every later one:
    /// the first record may have expired when another copy of the claim arrives.
    async fn record_unprotected(&mut self, outcome: Outcome) {
        let is_over = is_to_be_tried_again(&outcome, self.claimant.policy());
        if is_over {
            self.claimant.leave_unprotected();
        }
        let mut looks = Looks::begin();
        while let Some(lease) = self.claimant.find_lease(&mut looks).await {
            if let Some(mut tenure) = self.claimant.found(lease, Purpose::Execution) {
                conclude(&mut tenure, outcome.clone(), &mut self.caller).await;
            }
        }
        self.claimant.leave_unprotected();
    }
}
