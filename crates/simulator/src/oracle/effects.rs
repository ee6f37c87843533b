//! What was executed.

use semel_core::invariants::Invariant;
use semel_core::{Fence, OnAbandoned, OnStoreDown, OnUnknown, Outcome};

use super::{Ended, ExecutionLog, Moment, Oracle, Verdict, require};
use crate::Rule;
use crate::disk::LeaseSent;

impl Oracle {
    /// The work of an attempt begins, under this fence or without protection.
    pub(crate) fn begins(
        &mut self,
        moment: Moment,
        attempt: usize,
        fence: Option<Fence>,
    ) -> Verdict {
        let key = self.attempts[attempt].key;
        let is_first = self.attempts[attempt].execution.is_none();
        require(Rule::NotAgain, Some(key), moment, is_first, || {
            format!("a{attempt} executes twice")
        })?;
        let lease = match fence {
            None => self.begins_bypassed(moment, attempt).map(|()| None),
            Some(fence) => self.begins_leased(moment, attempt, fence.get()).map(Some),
        }?;
        let execution =
            ExecutionLog { lease, ended: None, ended_at: moment.at, is_concluded: false };
        self.attempts[attempt].execution = Some(execution);
        Ok(())
    }

    fn begins_bypassed(&self, moment: Moment, attempt: usize) -> Verdict {
        let log = &self.attempts[attempt];
        let is_open = self.keys[log.key].policy.on_store_down() == OnStoreDown::Open;
        require(Invariant::ClaimFirst, Some(log.key), moment, is_open, || {
            format!("a{attempt} executes without a claim")
        })?;
        let is_explained = self.is_explained(log.node, log.began.at);
        require(Rule::Explained, Some(log.key), moment, is_explained, || {
            format!("a{attempt} executes without protection for no reason")
        })
    }

    fn begins_leased(
        &mut self,
        moment: Moment,
        attempt: usize,
        fence: u64,
    ) -> Result<(usize, u64), crate::Violation> {
        let log = &self.attempts[attempt];
        let key = log.key;
        let grant = log.grants.iter().rev().find(|(_, granted)| *granted == fence).copied();
        require(Invariant::ClaimFirst, Some(key), moment, grant.is_some(), || {
            format!("a{attempt} executes under fence {fence}, which it was not granted")
        })?;
        let lease = grant.unwrap_or_default();
        self.may_execute_again(moment, key, lease.0)?;
        self.keys[key].lives[lease.0].executions.push(attempt);
        Ok(lease)
    }

    /// Whatever was executed before in this life surely had no effect, or the policy is to take that
    /// risk.
    fn may_execute_again(&self, moment: Moment, key: usize, life: usize) -> Verdict {
        let policy = &self.keys[key].policy;
        if policy.on_abandoned() == OnAbandoned::Reexecute {
            return Ok(());
        }
        for earlier in &self.keys[key].lives[life].executions {
            let execution = self.attempts[*earlier].execution.as_ref();
            let ended = execution.and_then(|execution| execution.ended.as_ref());
            let is_harmless = match ended {
                Some(Ended::With(Outcome::FailedForNow(_))) => true,
                Some(Ended::With(Outcome::Unknown(_)) | Ended::Panicked) => {
                    policy.on_unknown() == OnUnknown::Release
                }
                _ => false,
            };
            require(Rule::NotAgain, Some(key), moment, is_harmless, || {
                format!("executes again after a{earlier}, which ended as {ended:?}")
            })?;
        }
        Ok(())
    }

    /// The work of an attempt takes effect.
    pub(crate) fn takes_effect(&mut self, moment: Moment, attempt: usize) -> Verdict {
        let log = &self.attempts[attempt];
        let key = log.key;
        let Some((life, _)) = log.execution.as_ref().and_then(|execution| execution.lease) else {
            return Ok(());
        };
        let policy = &self.keys[key].policy;
        let is_strict = policy.on_abandoned() != OnAbandoned::Reexecute
            && policy.on_unknown() == OnUnknown::Hold;
        let life = &mut self.keys[key].lives[life];
        life.effects += 1;
        let effects = life.effects;
        require(Rule::NotAgain, Some(key), moment, effects == 1 || !is_strict, || {
            format!("the effect of a{attempt} is number {effects}")
        })
    }

    /// The work of an attempt ends.
    pub(crate) fn ends(&mut self, moment: Moment, attempt: usize, ended: Ended) {
        if let Some(execution) = &mut self.attempts[attempt].execution {
            execution.ended = Some(ended);
            execution.ended_at = moment.at;
        }
    }

    /// The execution under a lease, if there was one, be it that its holder did not know of the lease.
    pub(super) fn execution_of(&self, sent: LeaseSent) -> Option<&ExecutionLog> {
        let attempt = self.by_owner.get(&sent.owner.as_u128())?;
        let execution = self.attempts[*attempt].execution.as_ref()?;
        let is_of_lease = execution.lease.is_none_or(|(_, fence)| fence == sent.fence.get());
        is_of_lease.then_some(execution)
    }

    /// The store has answered what an execution's end was to write.
    pub(super) fn conclude(&mut self, sent: LeaseSent) {
        let Some(attempt) = self.by_owner.get(&sent.owner.as_u128()) else {
            return;
        };
        if let Some(execution) = &mut self.attempts[*attempt].execution {
            execution.is_concluded = true;
        }
    }
}
