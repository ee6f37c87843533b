use std::sync::Arc;

use semel_core::{Attempt, Claim, InFlight, OnStoreDown, Policy};
use semel_store::StoreError;
use tokio::time::Instant;

use crate::answer::Caller;
use crate::claiming::Claimant;
use crate::engine::Shared;
use crate::execution::{Work, outcome_of};
use crate::limits::Slot;
use crate::settling::conclude;
use crate::{Answer, EngineError, Execution};

/// One attempt from its claim to its answer.
///
/// It runs in a task of its own, the claim included: a claim whose future is dropped may have been
/// granted, and then nobody would know (I9, trap 3).
pub(crate) struct Errand {
    pub(crate) shared: Arc<Shared>,
    pub(crate) claimant: Claimant,
    pub(crate) caller: Caller,
    pub(crate) began: Instant,
    /// Held while the attempt claims, executes or settles.
    pub(crate) slot: Option<Slot>,
}

// === impl Errand ===

impl Errand {
    pub(crate) fn new(
        shared: Arc<Shared>,
        attempt: Attempt,
        policy: Policy,
        slot: Slot,
        caller: Caller,
    ) -> Self {
        Self {
            claimant: Claimant::new(shared.clone(), attempt, policy),
            shared,
            caller,
            began: Instant::now(),
            slot: Some(slot),
        }
    }

    /// Runs the attempt to its end, whether or not its caller is still there.
    pub(crate) async fn run(mut self, work: Work) {
        let answer = self.attempt(work).await;
        if self.claimant.is_in_doubt() {
            self.caller.answer(answer);
            self.claimant.forsake().await;
        } else {
            // First: whoever has the answer must not find the attempt still running.
            drop(self.slot);
            self.caller.answer(answer);
        }
    }

    async fn attempt(&mut self, work: Work) -> Result<Answer, EngineError> {
        // Before the claim, or an outcome that is settled in between would be missed.
        let waits = match self.claimant.policy().in_flight() {
            InFlight::Wait(timeout) => {
                Some((timeout, self.shared.registry.listen(self.claimant.id())))
            }
            InFlight::Conflict | InFlight::Accepted => None,
        };
        let claim = match (self.claimant.claim().await, waits) {
            (Ok(Claim::InFlight { until }), Some((timeout, listener))) => {
                self.wait(listener, until, timeout).await?
            }
            (Ok(claim), _) => claim,
            (Err(error), _) => return self.without_store(error, work).await,
        };
        Ok(match claim {
            Claim::Execute(lease) => {
                let mut tenure = self.claimant.take_up(lease);
                let work = work(tenure.execution());
                let ended = tenure.keep_while(work).await;
                let outcome = outcome_of(self.claimant.id(), ended);
                conclude(&mut tenure, outcome, &mut self.caller).await
            }
            Claim::Replay { settlement, expires } => Answer::Replayed { settlement, expires },
            Claim::InFlight { until } => Answer::InFlight { until },
            Claim::Mismatch => Answer::Mismatch,
            Claim::Unknown => Answer::Unknown { reply: None },
        })
    }

    /// The store could not be asked: the policy says whether the work executes all the same.
    async fn without_store(
        &mut self,
        error: StoreError,
        work: Work,
    ) -> Result<Answer, EngineError> {
        let id = self.claimant.id();
        // A damaged store is not one that is away: the record that cannot be read may be settled.
        let open = self.claimant.policy().on_store_down() == OnStoreDown::Open;
        if !open || !error.is_passing() {
            return Err(error.into());
        }
        tracing::warn!(record = %id.prefix(), %error, "executing without protection");
        let outcome = outcome_of(id, work(Execution::bypassed(id)).await);
        let answer = Answer::Bypassed { outcome: outcome.clone() };
        self.caller.answer(Ok(answer.clone()));
        // If the claim was granted unheard, its lease is not an orphan: the work was executed, so
        // releasing it would invite a second execution (trap 6). Its outcome is recorded instead.
        if let Some(lease) = self.claimant.find_lease().await {
            let mut tenure = self.claimant.take_up(lease);
            conclude(&mut tenure, outcome, &mut self.caller).await;
        }
        Ok(answer)
    }
}
