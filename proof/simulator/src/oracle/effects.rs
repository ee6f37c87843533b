//! What was executed.

use semel_core::invariants::Invariant;
use semel_core::{Fence, OnAbandoned, OnStoreDown, OnUnknown, Outcome, Owner, RecordId, Refusal};

use super::{AttemptLog, Ended, ExecutionLog, Moment, Oracle, Verdict, require};
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
        let execution = ExecutionLog {
            lease,
            ended: None,
            ended_at: moment.at,
            is_answered: false,
            is_superseded: false,
        };
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
        self.is_no_self_takeover(moment, attempt)?;
        self.may_execute_again(moment, key, lease.0)?;
        self.keys[key].lives[lease.0].executions.push(attempt);
        Ok(lease)
    }

    /// A process has its running and unsettled executions in memory. So no fault explains that it executes the same
    /// request once more beside them, under any policy.
    fn is_no_self_takeover(&self, moment: Moment, attempt: usize) -> Verdict {
        let log = &self.attempts[attempt];
        let AttemptLog { key, node, .. } = *log;
        let is_own = |other: &AttemptLog| other.is_beside(log) && self.is_unsettled(moment, other);
        let own = self.attempts.iter().position(is_own);
        require(Rule::SelfTakeover, Some(key), moment, own.is_none(), || {
            let own = own.unwrap_or_default();
            format!("node-{node} executes a{attempt} while a{own} is not settled there")
        })
    }

    /// Whether its work runs under a lease, or its outcome is still to be written. After the record's retention there is
    /// nothing left to write to, and it is given up.
    fn is_unsettled(&self, moment: Moment, log: &AttemptLog) -> bool {
        let ttl = self.keys[log.key].policy.ttl();
        log.execution.as_ref().is_some_and(|execution| {
            let is_given_up = moment.at.saturating_sub(execution.ended_at) >= ttl;
            let is_settling = !is_given_up && !self.is_concluded(log, execution);
            execution.lease.is_some() && (execution.ended.is_none() || is_settling)
        })
    }

    /// Whether there is nothing left to write. A lease superseded by one of its own process does not end it: it
    /// continues under that one.
    pub(super) fn is_concluded(&self, log: &AttemptLog, execution: &ExecutionLog) -> bool {
        execution.is_answered || execution.is_superseded && self.is_lost_to_another(log, execution)
    }

    /// Whether an execution of this node has ended, and its outcome was refused because of a lease of its own process.
    pub(crate) fn is_waited_for(&self, id: RecordId, node: usize) -> bool {
        let key = self.key_of(id);
        let process = self.processes[node];
        self.attempts.iter().any(|log| {
            let is_here = Some(log.key) == key && (log.node, log.process) == (node, process);
            let execution = log.execution.as_ref().filter(|it| is_here && it.is_superseded);
            execution.is_some_and(|it| it.lease.is_some() && !self.is_concluded(log, it))
        })
    }

    /// Whether this lease was granted to an attempt of this node that has executed nothing, and no other execution of
    /// the process is to continue under it.
    pub(crate) fn is_unacknowledged(&self, id: RecordId, owner: Owner, node: usize) -> bool {
        let holder = self.by_owner.get(&owner.as_u128()).map(|number| &self.attempts[*number]);
        let is_here = holder.is_some_and(|log| log.node == node && log.execution.is_none());
        is_here && !self.is_waited_for(id, node)
    }

    /// Whether a later lease was granted to another process, in another life, or to the second copy of a claim.
    fn is_lost_to_another(&self, log: &AttemptLog, execution: &ExecutionLog) -> bool {
        let is_later = |grant: &(usize, u64)| execution.lease.is_none_or(|lease| *grant > lease);
        let is_in_next_life = || {
            let latest = self.keys[log.key].lives.len().saturating_sub(1);
            execution.lease.is_none_or(|(life, _)| life < latest)
        };
        let mut others = self.attempts.iter().filter(|other| other.key == log.key);
        is_in_next_life()
            || others.any(|other| {
                let grants = if other.is_beside(log) { &other.doubled } else { &other.grants };
                grants.iter().any(is_later)
            })
    }

    /// Earlier executions of this life certainly had no effect, or the policy is to take that risk.
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

    /// What may be written under a lease: what its owner has executed, or another attempt of the same process. That one
    /// is given a lease which is granted beside its own, so that its work is recorded under it.
    pub(super) fn executions_of(&self, sent: LeaseSent) -> impl Iterator<Item = &ExecutionLog> {
        let owner = self.owner_of(sent);
        let is_ours = move |log: &&AttemptLog| {
            owner.is_some_and(|owner| log.is_beside(owner) && log.fingerprint == sent.fingerprint)
        };
        self.attempts.iter().filter(is_ours).filter_map(|log| log.execution.as_ref())
    }

    /// The execution under a lease by its owner, if there was one, even without knowledge of the lease.
    pub(super) fn own_execution_of(&self, sent: LeaseSent) -> Option<&ExecutionLog> {
        let owner = self.owner_of(sent)?;
        let execution = owner.execution.as_ref()?;
        let latest = self.keys[owner.key].lives.len().saturating_sub(1);
        let is_of_lease = execution.lease.is_none_or(|(life, fence)| {
            // An execution that is concluded has no part in a later life, which begins with the same fence.
            let is_over = life != latest && self.is_concluded(owner, execution);
            fence == sent.fence.get() && !is_over
        });
        is_of_lease.then_some(execution)
    }

    fn owner_of(&self, sent: LeaseSent) -> Option<&AttemptLog> {
        self.by_owner.get(&sent.owner.as_u128()).map(|number| &self.attempts[*number])
    }

    /// The store has answered the write of an execution's end: the execution of the owner, or the one that has the
    /// lease instead and produced the outcome.
    pub(super) fn conclude(
        &mut self,
        sent: LeaseSent,
        refusal: Option<&Refusal>,
        is_written: impl Fn(&ExecutionLog) -> bool,
    ) {
        let Some(number) = self.by_owner.get(&sent.owner.as_u128()).copied() else {
            return;
        };
        let is_superseded = matches!(refusal, Some(Refusal::Superseded));
        // An owner may be granted a lease late that it did not execute under: in another life, or without protection.
        // Another execution of its process has that one.
        let own = self.own_execution_of(sent);
        let is_own_lease = own.is_some_and(|execution| execution.lease.is_some());
        if let Some(execution) = &mut self.attempts[number].execution {
            execution.answered(is_superseded);
            if is_own_lease {
                return;
            }
        }
        for beside in 0..self.attempts.len() {
            let is_beside = self.attempts[beside].is_beside(&self.attempts[number]);
            let log = &mut self.attempts[beside];
            let is_ours = is_beside && log.fingerprint == sent.fingerprint;
            if let Some(execution) = log.execution.as_mut().filter(|it| is_ours && is_written(it)) {
                execution.answered(is_superseded);
            }
        }
    }
}

// === impl AttemptLog ===

impl AttemptLog {
    /// Whether it is in the same process as another, and on the same key.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        let place = |log: &Self| (log.key, log.node, log.process);
        place(self) == place(other)
    }
}

// === impl ExecutionLog ===

impl ExecutionLog {
    /// The store has answered what its end was to write.
    const fn answered(&mut self, is_superseded: bool) {
        self.is_superseded |= is_superseded;
        self.is_answered |= !is_superseded;
    }
}
