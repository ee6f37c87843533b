//! The answers to clients.

use semel_core::invariants::Invariant;
use semel_core::{Fence, OnStoreDown, OnUnknown, Outcome, Release, Settlement, Timestamp};
use semel_engine::{Answer, EngineError, Stored};

use super::life::Life;
use super::{AttemptLog, Ended, Moment, Oracle, Verdict, require, word};
use crate::{Rule, Violation};

impl Oracle {
    /// An attempt was answered.
    pub(crate) fn answered(
        &mut self,
        moment: Moment,
        attempt: usize,
        answered: &Result<Answer, EngineError>,
    ) -> Verdict {
        self.attempts[attempt].is_answered = true;
        match answered {
            Ok(answer) => self.check_answer(moment, attempt, answer),
            Err(error) => self.failed(moment, attempt, error),
        }
    }

    fn check_answer(&self, moment: Moment, attempt: usize, answer: &Answer) -> Verdict {
        match answer {
            Answer::Executed { settlement, expires, fence, stored } => {
                self.was_executed(moment, attempt, settlement, *fence, *stored)?;
                self.is_plausible(moment, attempt, *expires)
            }
            Answer::Replayed { settlement, expires } => {
                self.was_recorded(moment, attempt, settlement)?;
                self.is_plausible(moment, attempt, *expires)
            }
            Answer::Released { outcome, fence } => {
                self.ended_so(moment, attempt, outcome)?;
                let log = &self.attempts[attempt];
                let is_granted = log.grants.iter().any(|(_, granted)| *granted == fence.get());
                require(Invariant::Fenced, Some(log.key), moment, is_granted, || {
                    format!("a{attempt} was never granted fence {fence}")
                })
            }
            Answer::Bypassed { outcome } => self.was_bypassed(moment, attempt, outcome),
            Answer::Mismatch => self.was_mismatched(moment, attempt),
            Answer::Unknown { reply } => {
                let holds = self.policy(attempt).on_unknown() == OnUnknown::Hold
                    || self.policy(attempt).on_abandoned() == semel_core::OnAbandoned::Hold;
                let is_right =
                    holds && (reply.is_none() || self.attempts[attempt].execution.is_some());
                let key = self.attempts[attempt].key;
                require(Rule::Decided, Some(key), moment, is_right, || {
                    format!("a{attempt} was answered unknown")
                })
            }
            Answer::InFlight { .. } => self.is_in_flight(moment, attempt),
        }
    }

    fn policy(&self, attempt: usize) -> &semel_core::Policy {
        &self.keys[self.attempts[attempt].key].policy
    }

    /// What was settled before an attempt began is not called in progress, unless its node was kept from the store.
    fn is_in_flight(&self, moment: Moment, attempt: usize) -> Verdict {
        let log = &self.attempts[attempt];
        let was_settled = self.life(log.key).is_some_and(|life| {
            let is_before = life.settled_at.is_some_and(|at| at < log.began.at);
            is_before && life.fingerprint == log.fingerprint && life.is_live(moment.now)
        });
        let is_kept_away = || self.is_explained(log.node, log.began.at);
        let is_excused = self.went_back || is_kept_away() && self.has_own_work(log);
        require(
            Invariant::SettledIsFinal,
            Some(log.key),
            moment,
            !was_settled || is_excused,
            || format!("a{attempt} was answered in flight for work that had been settled before"),
        )
    }

    /// Whether the process of an attempt has executed the same request, or still does: then it needs no answer of the
    /// store. Work that is to be tried again does not count once it has ended.
    fn has_own_work(&self, log: &AttemptLog) -> bool {
        let on_unknown = self.keys[log.key].policy.on_unknown();
        self.attempts.iter().any(|other| {
            let is_ours = other.is_beside(log) && other.fingerprint == log.fingerprint;
            let execution = other.execution.as_ref().filter(|_| is_ours);
            execution.is_some_and(|it| {
                let is_over = it.is_released_by(Release::Retry, on_unknown);
                !is_over || it.ended_at >= log.began.at
            })
        })
    }

    /// The expiry of an answer is that of a life of the record.
    fn is_plausible(&self, moment: Moment, attempt: usize, expires: Timestamp) -> Verdict {
        let log = &self.attempts[attempt];
        let is_known =
            self.keys[log.key].lives.iter().any(|life| life.expires >= expires) || self.went_back;
        require(Rule::Decided, Some(log.key), moment, is_known, || {
            format!("a{attempt} was answered with a record until {expires}")
        })
    }

    fn was_executed(
        &self,
        moment: Moment,
        attempt: usize,
        settlement: &Settlement,
        fence: Fence,
        stored: Stored,
    ) -> Verdict {
        let log = &self.attempts[attempt];
        let execution = log.execution.as_ref();
        let lease = execution.and_then(|execution| execution.lease);
        let is_own = lease.is_some_and(|(_, under)| under == fence.get());
        require(Invariant::ClaimFirst, Some(log.key), moment, is_own, || {
            format!("a{attempt} was answered with an execution under fence {fence}, not {lease:?}")
        })?;
        let outcome = match settlement {
            Settlement::Completed(reply) => Outcome::Completed(reply.clone()),
            Settlement::Failed(reply) => Outcome::Failed(reply.clone()),
            Settlement::Abandoned => Outcome::Unknown(semel_core::Reply::default()),
        };
        self.ended_so(moment, attempt, &outcome)?;
        let life = &self.keys[log.key].lives[self.latest_life(attempt, fence.get())];
        match stored {
            Stored::Durable => self.is_durable(moment, attempt, life, settlement),
            Stored::NotYet => self.is_lost(moment, attempt, life, settlement),
            Stored::Gone => {
                let is_last = life.replaced.is_none();
                let is_gone = !is_last || !life.is_live(moment.now) || self.went_back;
                require(Rule::Decided, Some(log.key), moment, is_gone, || {
                    format!("a{attempt} was answered that its record is gone")
                })
            }
        }
    }

    /// The life that an attempt has a lease of, under this fence. A claim that comes late may begin another
    /// life while its owner still executes under a lease of an expired one. The owner then holds that lease
    /// as well, which is as good: it is the only one that executes. It may also begin when its owner has settled without
    /// an acknowledgement yet: the life that is settled is the one that counts.
    fn latest_life(&self, attempt: usize, fence: u64) -> usize {
        let log = &self.attempts[attempt];
        let lives = &self.keys[log.key].lives;
        let granted = || {
            let grants = log.grants.iter().rev().filter(|(_, granted)| *granted == fence);
            grants.map(|(life, _)| *life)
        };
        let is_settled = |life: &usize| lives[*life].settled().is_some();
        // A late claim of another attempt may begin the next life, and leave its lease to the execution.
        let left_to_it = || {
            let is_left = |life: &usize| self.is_in_process_of(attempt, lives[*life].owner);
            let later = granted().next().map_or(lives.len(), |life| life + 1);
            (later..lives.len()).rev().filter(is_settled).find(is_left)
        };
        let settled = granted().find(is_settled).or_else(left_to_it);
        settled.or_else(|| granted().next()).unwrap_or(0)
    }

    fn is_in_process_of(&self, attempt: usize, owner: u128) -> bool {
        let process = |attempt: usize| {
            let log = &self.attempts[attempt];
            (log.node, log.process)
        };
        self.by_owner.get(&owner).is_some_and(|other| process(*other) == process(attempt))
    }

    /// No outcome is answered before it is durable (I6), and no other than the recorded one (I4).
    fn is_durable(
        &self,
        moment: Moment,
        attempt: usize,
        life: &Life,
        settlement: &Settlement,
    ) -> Verdict {
        let key = self.attempts[attempt].key;
        let recorded = life.settled();
        require(Invariant::SettleFirst, Some(key), moment, recorded.is_some(), || {
            format!("a{attempt} was answered {} too early", word(Some(settlement)))
        })?;
        require(Invariant::SameAnswer, Some(key), moment, recorded == Some(settlement), || {
            format!("a{attempt} was answered {}, not {}", word(Some(settlement)), word(recorded))
        })
    }

    /// The exception of I6: the store was lost.
    fn is_lost(
        &self,
        moment: Moment,
        attempt: usize,
        life: &Life,
        settlement: &Settlement,
    ) -> Verdict {
        let log = &self.attempts[attempt];
        let is_explained = self.is_explained(log.node, log.began.at);
        require(Rule::Explained, Some(log.key), moment, is_explained, || {
            format!("a{attempt} was answered that its outcome is not stored for no reason")
        })?;
        // If no other attempt may execute, no other may have settled.
        let holds = self.policy(attempt).on_abandoned() == semel_core::OnAbandoned::Hold;
        let recorded = life.settled();
        let is_same = !holds || recorded.is_none_or(|recorded| recorded == settlement);
        require(Invariant::SameAnswer, Some(log.key), moment, is_same, || {
            format!("a{attempt} was answered {}, not {}", word(Some(settlement)), word(recorded))
        })
    }

    /// The replay is of a life of this key and request that was there while the attempt was made.
    fn was_recorded(&self, moment: Moment, attempt: usize, settlement: &Settlement) -> Verdict {
        let log = &self.attempts[attempt];
        let alike = |life: &&Life| {
            life.fingerprint == log.fingerprint && life.settled() == Some(settlement)
        };
        let lives = || self.keys[log.key].lives.iter().filter(alike);
        require(Invariant::SameAnswer, Some(log.key), moment, lives().next().is_some(), || {
            format!("a{attempt} was replayed {}, which is not recorded", word(Some(settlement)))
        })?;
        let was_there = |life: &Life| {
            let is_early = life.replaced.is_some_and(|replaced| replaced < log.began.at);
            !is_early && (log.began.now < life.expires || self.went_back)
        };
        require(Invariant::SameAnswer, Some(log.key), moment, lives().any(was_there), || {
            let settlement = word(Some(settlement));
            format!("a{attempt} was replayed {settlement}, which had expired before it began")
        })
    }

    fn ended_so(&self, moment: Moment, attempt: usize, outcome: &Outcome) -> Verdict {
        let log = &self.attempts[attempt];
        let ended = log.execution.as_ref().and_then(|execution| execution.ended.as_ref());
        let is_right = match (ended, outcome) {
            (Some(Ended::With(ended)), outcome) => ended == outcome,
            (Some(Ended::Panicked), Outcome::Unknown(reply)) => reply.bytes().is_empty(),
            _ => false,
        };
        require(Invariant::SameAnswer, Some(log.key), moment, is_right, || {
            format!("a{attempt} was answered {outcome:?}, and ended as {ended:?}")
        })
    }

    fn was_bypassed(&self, moment: Moment, attempt: usize, outcome: &Outcome) -> Verdict {
        let log = &self.attempts[attempt];
        let is_bypassed = log.execution.as_ref().is_some_and(|done| done.lease.is_none());
        let is_right = is_bypassed && self.policy(attempt).on_store_down() == OnStoreDown::Open;
        require(Invariant::ClaimFirst, Some(log.key), moment, is_right, || {
            format!("a{attempt} was answered that it was executed without protection")
        })?;
        self.ended_so(moment, attempt, outcome)
    }

    fn was_mismatched(&self, moment: Moment, attempt: usize) -> Verdict {
        let log = &self.attempts[attempt];
        let is_inert = log.execution.is_none();
        require(Invariant::MismatchIsInert, Some(log.key), moment, is_inert, || {
            format!("a{attempt} is a mismatch and was executed")
        })?;
        let others = self.keys[log.key].lives.iter();
        let is_right = others
            .filter(|life| life.replaced.is_none_or(|replaced| replaced >= log.began.at))
            .any(|life| life.fingerprint != log.fingerprint)
            || self.has_other_work(attempt);
        require(Rule::Decided, Some(log.key), moment, is_right, || {
            format!("a{attempt} was answered mismatch with no other request")
        })
    }

    /// Whether the process of an attempt executed or settled another request under the same key: then it may answer
    /// without the store. Its writes, and after work without protection its claims, may be unacknowledged.
    fn has_other_work(&self, attempt: usize) -> bool {
        let log = &self.attempts[attempt];
        let is_other =
            |other: &&AttemptLog| other.fingerprint != log.fingerprint && other.is_beside(log);
        self.attempts.iter().filter(is_other).any(|other| other.execution.is_some())
    }

    fn failed(&self, moment: Moment, attempt: usize, error: &EngineError) -> Result<(), Violation> {
        let log = &self.attempts[attempt];
        let (rule, is_right): (Rule, bool) = match error {
            EngineError::Store(_) => (Rule::Explained, self.is_explained(log.node, log.began.at)),
            // Only a node that is shut down answers so, and a node that ends has no client left.
            EngineError::ShuttingDown => {
                (Rule::Explained, self.is_explained(log.node, log.began.at))
            }
            EngineError::TooManyExecutions { max } => (Invariant::Bounded.into(), *max < 1_000),
            _ => (Invariant::Detached.into(), false),
        };
        require(rule, Some(log.key), moment, is_right, || format!("a{attempt} failed: {error}"))?;
        let is_inert = log.execution.is_none();
        require(Invariant::ClaimFirst, Some(log.key), moment, is_inert, || {
            format!("a{attempt} failed, and was executed: {error}")
        })
    }
}
