//! What is left when everything has come to an end.

use semel_core::Fingerprint;
use semel_core::invariants::Invariant;

use super::life::Stage;
use super::{AttemptLog, Moment, Oracle, Verdict, require};
use crate::Rule;

impl Oracle {
    /// The keys that were used.
    pub(crate) fn used_keys(&self) -> Vec<usize> {
        (0..self.keys.len()).filter(|key| !self.keys[*key].lives.is_empty()).collect()
    }

    /// The request that a key is used for at this moment, if it is.
    pub(crate) fn live_request(&self, moment: Moment, key: usize) -> Option<Fingerprint> {
        let live = self.keys[key].lives.last().filter(|life| life.is_live(moment.now));
        live.map(|life| life.fingerprint)
    }

    /// No lease is left with an attempt that is over: it was settled, or handed back. To be checked when no process has
    /// anything left to do.
    ///
    /// The second copy of a claim may be granted a lease when its attempt has had its answer and is gone. No attempt recovers
    /// that one; TCP delivers no copies.
    pub(crate) fn no_orphans(&self, moment: Moment) -> Verdict {
        for (number, key) in self.keys.iter().enumerate() {
            let latest = key.lives.last().filter(|life| life.is_live(moment.now));
            let Some(life) = latest.filter(|life| !life.is_doubled) else {
                continue;
            };
            let holder = self.by_owner.get(&life.owner).map(|attempt| &self.attempts[*attempt]);
            let is_alive = holder.is_some_and(|log| !log.is_cut && !self.has_given_up(moment, log));
            let is_orphan = is_alive && matches!(life.stage, Stage::Leased { .. });
            require(Rule::NoOrphans, Some(number), moment, !is_orphan, || {
                format!("the lease of {} was never handed back", self.attempt_word(life.owner))
            })?;
        }
        Ok(())
    }

    /// Every execution came to its end and what it wrote was answered, unless its node ended (I9).
    pub(crate) fn ended(&self, moment: Moment) -> Verdict {
        for (number, attempt) in self.attempts.iter().enumerate() {
            let Some(execution) = attempt.execution.as_ref().filter(|_| !attempt.is_cut) else {
                continue;
            };
            let key = Some(attempt.key);
            require(Invariant::Detached, key, moment, execution.ended.is_some(), || {
                format!("the execution of a{number} never ended")
            })?;
            // After the record's retention nothing is left to write to.
            let ttl = self.keys[attempt.key].policy.ttl();
            let is_over = moment.at.saturating_sub(execution.ended_at) >= ttl;
            let is_right =
                execution.lease.is_none() || is_over || self.is_concluded(attempt, execution);
            require(Invariant::Detached, key, moment, is_right, || {
                format!("the outcome of a{number} was never written")
            })?;
        }
        Ok(())
    }

    /// Whether an attempt had an outcome that could not be written within the retention of its record.
    fn has_given_up(&self, moment: Moment, log: &AttemptLog) -> bool {
        let ttl = self.keys[log.key].policy.ttl();
        log.execution.as_ref().is_some_and(|execution| {
            let waited = moment.at.saturating_sub(execution.ended_at);
            let is_open = execution.ended.is_some() && !self.is_concluded(log, execution);
            is_open && waited >= ttl
        })
    }
}
