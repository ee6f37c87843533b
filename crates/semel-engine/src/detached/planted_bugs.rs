//! Bugs that exist only where [one is planted](semel_core::planted), for the fault runs to find.

use semel_core::{Claim, Fence, Lease, Record, Release, Timestamp};
use tokio_util::sync::CancellationToken;

use super::AttemptTask;
use crate::execution::Work;
use crate::renewal::LeaseKeeper;
use crate::settling::finish;
use crate::{Answer, EngineError, Execution};

impl AttemptTask {
    /// Whether there is no record yet.
    pub(super) async fn seems_new(&self) -> bool {
        let found = self.claim.context().store.inspect(self.claim.id()).await;
        matches!(found, Ok(None))
    }

    /// Bug: executes with the fence that will be granted, and claims afterwards.
    pub(super) async fn execute_before_claim(&mut self, work: Work) -> Result<Answer, EngineError> {
        let id = self.claim.id();
        let (expires, lost) = (Timestamp::from_millis(0), CancellationToken::new());
        let outcome =
            self.claim.outcome_of(work(Execution::leased(id, Fence::FIRST, expires, lost)).await);
        match self.claim.claim_with_retries().await? {
            Claim::Execute(lease) => {
                let Some(mut keeper) = self.claim.hold(lease) else {
                    return Err(EngineError::Interrupted);
                };
                Ok(finish(&mut keeper, outcome, &mut self.caller).await)
            }
            Claim::Replay { settlement, expires } => Ok(Answer::Replayed { settlement, expires }),
            Claim::InFlight { until } => Ok(Answer::InFlight { until }),
            Claim::Mismatch => Ok(Answer::Mismatch),
            Claim::Unknown => Ok(Answer::Unknown { reply: None }),
        }
    }

    /// Bug: drops the work, and leaves the lease to run out, when the caller leaves.
    pub(super) async fn execute_until_left(
        &mut self,
        mut keeper: Box<LeaseKeeper>,
        work: Work,
    ) -> Result<Answer, EngineError> {
        let job = work(keeper.execution());
        let work = job.abort_handle();
        let ended = tokio::select! {
            ended = keeper.keep_while(job) => ended,
            () = self.caller.left() => {
                work.abort();
                return Ok(Answer::Unknown { reply: None });
            }
        };
        let outcome = self.claim.outcome_of(ended);
        Ok(finish(&mut keeper, outcome, &mut self.caller).await)
    }

    /// Bug: a waiter makes itself a lease out of the record.
    pub(super) async fn release_anothers_lease(&self) {
        let (store, id) = (&self.claim.context().store, self.claim.id());
        if let Ok(Some(Record { fingerprint, fence, owner, expires, .. })) = store.inspect(id).await
        {
            let lease = Lease::new(id, fingerprint, fence, owner, expires, expires);
            let _ = store.release(&lease, Release::Retry).await;
        }
    }
}
