//! What no attempt may do: mistakes that are made only where [one is planted](semel_planted), for the fault runs to
//! find.

use semel_core::{Claim, Fence, Lease, Record, Release, Timestamp};
use tokio_util::sync::CancellationToken;

use crate::detached::Errand;
use crate::execution::{Work, outcome_of};
use crate::renewal::Tenure;
use crate::settling::conclude;
use crate::{Answer, EngineError, Execution};

impl Errand {
    /// Is there no record yet?
    pub(crate) async fn seems_new(&self) -> bool {
        let found = self.claimant.shared().store.inspect(self.claimant.id()).await;
        matches!(found, Ok(None))
    }

    /// What no attempt may do: it executes with the fence that it will be granted, and claims afterwards.
    pub(crate) async fn execute_before_claim(&mut self, work: Work) -> Result<Answer, EngineError> {
        let id = self.claimant.id();
        let (expires, lost) = (Timestamp::from_millis(0), CancellationToken::new());
        let outcome =
            outcome_of(id, work(Execution::leased(id, Fence::FIRST, expires, lost)).await);
        match self.claimant.claim().await? {
            Claim::Execute(lease) => {
                let Some(mut tenure) = self.claimant.take_up(lease) else {
                    return Err(EngineError::Interrupted);
                };
                Ok(conclude(&mut tenure, outcome, &mut self.caller).await)
            }
            Claim::Replay { settlement, expires } => Ok(Answer::Replayed { settlement, expires }),
            Claim::InFlight { until } => Ok(Answer::InFlight { until }),
            Claim::Mismatch => Ok(Answer::Mismatch),
            Claim::Unknown => Ok(Answer::Unknown { reply: None }),
        }
    }

    /// What no attempt may do: it drops its work, and leaves its lease to run out, when its caller leaves.
    pub(crate) async fn execute_until_left(
        &mut self,
        mut tenure: Box<Tenure>,
        work: Work,
    ) -> Result<Answer, EngineError> {
        let job = work(tenure.execution());
        let work = job.abort_handle();
        let ended = tokio::select! {
            ended = tenure.keep_while(job) => ended,
            () = self.caller.left() => {
                work.abort();
                return Ok(Answer::Unknown { reply: None });
            }
        };
        let outcome = outcome_of(self.claimant.id(), ended);
        Ok(conclude(&mut tenure, outcome, &mut self.caller).await)
    }

    /// What no waiter may do: it makes itself a lease out of the record.
    pub(crate) async fn release_anothers_lease(&self) {
        let (store, id) = (&self.claimant.shared().store, self.claimant.id());
        if let Ok(Some(Record { fingerprint, fence, owner, expires, .. })) = store.inspect(id).await
        {
            let lease = Lease::new(id, fingerprint, fence, owner, expires, expires);
            let _ = store.release(&lease, Release::Retry).await;
        }
    }
}
