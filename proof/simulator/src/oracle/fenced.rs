//! Fenced writes, inspections and deletions, and their answers.

use std::time::Duration;

use semel_core::invariants::Invariant;
use semel_core::{OnUnknown, Outcome, Record, RecordId, Refusal, Release, Settlement, State};
use semel_store::{Released, Renewed, Settled};

use super::life::{Life, Stage};
use super::{Ended, ExecutionLog, Moment, Oracle, Verdict, require, unknown_attempt, word};
use crate::disk::LeaseSent;
use crate::{Rule, Violation};

impl Oracle {
    /// A renewal was answered.
    pub(crate) fn renewed(
        &mut self,
        moment: Moment,
        sent: LeaseSent,
        by: Duration,
        renewed: &Renewed,
    ) -> Verdict {
        let (key, is_current) = self.holder(moment, sent)?;
        let leased = match self.life(key).map(|life| &life.stage) {
            Some(Stage::Leased { until }) if is_current => Some(*until),
            _ => None,
        };
        match (renewed, leased) {
            (Renewed::Refused(refusal), None) => self.refused(moment, key, sent, refusal),
            (Renewed::Until { until, expires }, Some(known)) => {
                let lasts = moment.now.plus(by).max(known);
                if let Some(life) = self.keys[key].lives.last_mut() {
                    life.extend(lasts, moment.at);
                }
                let is_right =
                    *until == lasts && Some(*expires) == self.life(key).map(|l| l.expires);
                require(Rule::Decided, Some(key), moment, is_right, || {
                    format!("a renewal until {until}, not {lasts}")
                })
            }
            (renewed, _) => require(Invariant::Fenced, Some(key), moment, false, || {
                format!("a renewal with fence {} was answered {renewed:?}", sent.fence)
            }),
        }
    }

    /// A settlement was answered.
    pub(crate) fn settled(
        &mut self,
        moment: Moment,
        sent: LeaseSent,
        settlement: &Settlement,
        settled: &Settled,
    ) -> Verdict {
        let (key, is_current) = self.holder(moment, sent)?;
        self.settlement_has_an_execution(moment, key, sent, settlement)?;
        let life = self.life(key).filter(|_| is_current);
        let is_open =
            matches!(life.map(|life| &life.stage), Some(Stage::Leased { .. } | Stage::Held));
        let is_same = life.and_then(Life::settled) == Some(settlement);
        match settled {
            Settled::Refused(refusal) if !is_open && !is_same => {
                self.refused(moment, key, sent, refusal)?;
            }
            Settled::Recorded if is_open || is_same => {
                if let Some(life) = self.keys[key].lives.last_mut() {
                    life.settle(settlement.clone(), moment.at);
                }
            }
            _ => {
                let what = || format!("a settlement with fence {}: {settled:?}", sent.fence);
                require(Invariant::Fenced, Some(key), moment, false, what)?;
            }
        }
        let refusal = match settled {
            Settled::Refused(refusal) => Some(refusal),
            Settled::Recorded => None,
        };
        self.conclude(sent, refusal, |execution| execution.is_settled_by(settlement));
        Ok(())
    }

    fn settlement_has_an_execution(
        &self,
        moment: Moment,
        key: usize,
        sent: LeaseSent,
        settlement: &Settlement,
    ) -> Verdict {
        let is_right =
            self.executions_of(sent).any(|execution| execution.is_settled_by(settlement));
        require(Invariant::SameAnswer, Some(key), moment, is_right, || {
            format!(
                "{} settles {}",
                self.attempt_word(sent.owner.as_u128()),
                word(Some(settlement))
            )
        })
    }

    /// A release was answered.
    pub(crate) fn released(
        &mut self,
        moment: Moment,
        sent: LeaseSent,
        how: Release,
        released: &Released,
    ) -> Verdict {
        let (key, is_current) = self.holder(moment, sent)?;
        self.release_is_allowed(moment, key, sent, how)?;
        let stage = self.life(key).filter(|_| is_current).map(|life| &life.stage);
        let is_open = matches!(stage, Some(Stage::Leased { .. }));
        let is_same = match how {
            Release::Retry => matches!(stage, Some(Stage::Released)),
            Release::Hold => matches!(stage, Some(Stage::Held)),
        };
        match released {
            Released::Refused(refusal) if !is_open && !is_same => {
                self.refused(moment, key, sent, refusal)?;
            }
            Released::Done if is_open || is_same => {
                if let Some(life) = self.keys[key].lives.last_mut() {
                    life.stage = if how == Release::Hold { Stage::Held } else { Stage::Released };
                }
            }
            _ => {
                let what = || format!("a release with fence {}: {released:?}", sent.fence);
                require(Invariant::Fenced, Some(key), moment, false, what)?;
            }
        }
        let refusal = match released {
            Released::Refused(refusal) => Some(refusal),
            Released::Done => None,
        };
        let on_unknown = self.keys[key].policy.on_unknown();
        self.conclude(sent, refusal, |execution| execution.is_released_by(how, on_unknown));
        Ok(())
    }

    /// Only work that certainly did not happen is released for a retry, unless the policy allows more.
    fn release_is_allowed(
        &self,
        moment: Moment,
        key: usize,
        sent: LeaseSent,
        how: Release,
    ) -> Verdict {
        let on_unknown = self.keys[key].policy.on_unknown();
        let may_be = |execution: &ExecutionLog| execution.is_released_by(how, on_unknown);
        let own = self.own_execution_of(sent);
        // Nothing was executed, as the grant was not acknowledged; or another of the process was given it, as it may be
        // if its owner had executed without protection.
        let is_retryable = || how == Release::Retry || self.executions_of(sent).any(may_be);
        let is_right = match own {
            None => is_retryable(),
            Some(own) if own.lease.is_none() => may_be(own) || self.executions_of(sent).any(may_be),
            Some(own) => may_be(own),
        };
        require(Rule::NotAgain, Some(key), moment, is_right, || {
            format!("{how:?} of what ended as {:?}", own.map(|execution| &execution.ended))
        })
    }

    /// The refusal has the recorded outcome.
    fn refused(&self, moment: Moment, key: usize, sent: LeaseSent, refusal: &Refusal) -> Verdict {
        let of_ours = |life: &&Life| life.fingerprint == sent.fingerprint;
        let live = self.live(key, moment.now).filter(of_ours);
        match refusal {
            Refusal::Settled { settlement, expires } if live.is_some() => {
                self.is_recorded(moment, key, settlement, *expires)
            }
            _ => {
                let is_right = match refusal {
                    Refusal::Gone => live.is_none(),
                    Refusal::Superseded => live.is_some_and(|life| life.settled().is_none()),
                    Refusal::Settled { .. } => false,
                };
                require(Rule::Decided, Some(key), moment, is_right, || {
                    format!("refused as {refusal:?}")
                })
            }
        }
    }

    /// The key of a lease, and whether it is the record's current one.
    fn holder(&self, moment: Moment, sent: LeaseSent) -> Result<(usize, bool), Violation> {
        let key = self.key_of(sent.id).ok_or_else(|| unknown_attempt(Invariant::Scoped, moment))?;
        let live = self.live(key, moment.now);
        let is_current = live.is_some_and(|life| {
            life.fingerprint == sent.fingerprint
                && life.is_held_by(sent.owner.as_u128(), sent.fence.get())
        });
        Ok((key, is_current))
    }

    /// An inspection was answered.
    pub(crate) fn inspected(
        &self,
        moment: Moment,
        id: RecordId,
        record: Option<&Record>,
    ) -> Verdict {
        let key = self.key_of(id).ok_or_else(|| unknown_attempt(Invariant::Scoped, moment))?;
        let known = self.live(key, moment.now);
        let is_right = match (known, record) {
            (None, None) => true,
            (Some(life), Some(record)) => is_alike(life, record),
            _ => false,
        };
        let rule = if known.is_some_and(|life| life.settled().is_some()) {
            Invariant::SettledIsFinal.into()
        } else {
            Rule::Decided
        };
        require(rule, Some(key), moment, is_right, || {
            format!("the record is {record:?}, and should be {known:?}")
        })
    }

    /// Expired records were deleted.
    pub(crate) fn swept(&mut self, moment: Moment, deleted: usize) -> Verdict {
        let last = self.keys.iter_mut().filter_map(|key| key.lives.last_mut());
        let expired = last.filter(|life| !life.is_swept && life.expires <= moment.now);
        let expired = expired.map(|life| life.is_swept = true).count();
        require(Rule::Decided, None, moment, deleted == expired, || {
            format!("{deleted} records were swept, and {expired} had expired")
        })
    }
}

// === impl ExecutionLog ===

impl ExecutionLog {
    fn is_settled_by(&self, settlement: &Settlement) -> bool {
        match (&self.ended, settlement) {
            (Some(Ended::With(Outcome::Completed(done))), Settlement::Completed(reply))
            | (Some(Ended::With(Outcome::Failed(done))), Settlement::Failed(reply)) => {
                done == reply
            }
            _ => false,
        }
    }

    pub(super) fn is_released_by(&self, how: Release, on_unknown: OnUnknown) -> bool {
        match &self.ended {
            Some(Ended::With(Outcome::FailedForNow(_))) => how == Release::Retry,
            Some(Ended::Panicked | Ended::With(Outcome::Unknown(_))) => {
                (how == Release::Retry) == (on_unknown == OnUnknown::Release)
            }
            _ => false,
        }
    }
}

fn is_alike(life: &Life, record: &Record) -> bool {
    let is_same_stage = match (&life.stage, &record.state) {
        (Stage::Leased { until }, State::Leased { until: seen }) => until == seen,
        (Stage::Released, State::Released) | (Stage::Held, State::Held) => true,
        (Stage::Settled(known), State::Settled(seen)) => known == seen,
        _ => false,
    };
    is_same_stage
        && life.is_held_by(record.owner.as_u128(), record.fence.get())
        && life.expires == record.expires
        && life.fingerprint == record.fingerprint
}
