//! Claims and their answers.

use semel_core::invariants::Invariant;
use semel_core::{Claim, Lease, OnAbandoned, Settlement, Timestamp};

use super::life::{Life, Stage};
use super::{Moment, Oracle, Verdict, require, unknown_attempt};
use crate::disk::ClaimSent;
use crate::{Rule, Violation};

/// The state of a record as seen by a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum View {
    /// There is none, or it has expired.
    None,
    OfAnotherRequest,
    Settled,
    Held,
    Released,
    /// Released by the same owner: a claim that comes late.
    HandedBack,
    /// Leased to the same owner.
    Own,
    /// Leased to another.
    Leased,
    Abandoned,
}

impl Oracle {
    /// A claim was answered.
    pub(crate) fn claimed(&mut self, moment: Moment, sent: &ClaimSent, claim: &Claim) -> Verdict {
        let (key, attempt) = self.claimant(moment, sent)?;
        let view = self.view(key, sent, moment.now);
        match claim {
            Claim::Execute(lease) => self.granted(moment, key, attempt, sent, view, lease),
            Claim::Replay { settlement, expires } => {
                self.replayed(moment, key, view, settlement, *expires)
            }
            Claim::InFlight { until } => self.in_flight(moment, key, view, *until),
            Claim::Mismatch => {
                let is_right = view == View::OfAnotherRequest;
                require(refused_wrongly(view), Some(key), moment, is_right, || {
                    format!("a claim on a record that is {view:?} was answered mismatch")
                })
            }
            Claim::Unknown => {
                let holds = self.keys[key].policy.on_abandoned() == OnAbandoned::Hold;
                let is_right = view == View::Held || view == View::Abandoned && holds;
                require(refused_wrongly(view), Some(key), moment, is_right, || {
                    format!("a claim on a record that is {view:?} was answered unknown")
                })?;
                if view == View::Abandoned { self.lapse_is_explained(moment, key) } else { Ok(()) }
            }
        }
    }

    fn in_flight(&self, moment: Moment, key: usize, view: View, until: Timestamp) -> Verdict {
        if view == View::HandedBack {
            return require(Rule::Decided, Some(key), moment, until == moment.now, || {
                format!("a lease that was handed back was answered to run out at {until}")
            });
        }
        require(refused_wrongly(view), Some(key), moment, view == View::Leased, || {
            format!("a claim on a record that is {view:?} was answered in flight")
        })?;
        let stage = self.life(key).map(|life| &life.stage);
        let is_same = matches!(stage, Some(Stage::Leased { until: known }) if *known == until);
        // If it were sooner than the holder's answer, two could hold a lease.
        require(Invariant::OneLease, Some(key), moment, is_same, || {
            format!("a lease was answered to run out at {until}, and is {stage:?}")
        })
    }

    /// The key and the attempt of a claim.
    fn claimant(&self, moment: Moment, sent: &ClaimSent) -> Result<(usize, usize), Violation> {
        let attempt = self.by_owner.get(&sent.owner.as_u128()).copied();
        let attempt = attempt.ok_or_else(|| unknown_attempt(Invariant::ClaimFirst, moment))?;
        let meant = self.attempts[attempt].key;
        let key = self.key_of(sent.id);
        require(Invariant::Scoped, Some(meant), moment, key == Some(meant), || {
            format!("a{attempt} claimed the record of {key:?}")
        })?;
        Ok((meant, attempt))
    }

    fn view(&self, key: usize, sent: &ClaimSent, now: Timestamp) -> View {
        let Some(life) = self.live(key, now) else {
            return View::None;
        };
        match &life.stage {
            _ if life.fingerprint != sent.fingerprint => View::OfAnotherRequest,
            Stage::Settled(_) => View::Settled,
            Stage::Held => View::Held,
            Stage::Released if life.owner == sent.owner.as_u128() => View::HandedBack,
            Stage::Released => View::Released,
            Stage::Leased { .. } if life.owner == sent.owner.as_u128() => View::Own,
            Stage::Leased { until } if now < *until => View::Leased,
            Stage::Leased { .. } => View::Abandoned,
        }
    }

    fn granted(
        &mut self,
        moment: Moment,
        key: usize,
        attempt: usize,
        sent: &ClaimSent,
        view: View,
        lease: &Lease,
    ) -> Verdict {
        self.may_be_granted(moment, key, view)?;
        let (fence, owner) = (lease.fence().get(), sent.owner.as_u128());
        let known = self.live(key, moment.now).map_or(0, |life| life.fence);
        let rises = match view {
            View::None => fence == 1,
            View::Own => fence == known,
            _ => fence > known,
        };
        require(Invariant::Fenced, Some(key), moment, rises, || {
            format!("fence {fence} was granted after fence {known}, the record being {view:?}")
        })?;
        let mut until = moment.now.plus(sent.policy.lease());
        if let (View::Own, Some(Stage::Leased { until: known })) =
            (view, self.life(key).map(|life| &life.stage))
        {
            until = until.max(*known);
        }
        if view == View::None {
            self.begin_life(moment, key, sent);
        }
        let log = &mut self.attempts[attempt];
        let is_new = !log.grants.iter().any(|(_, granted)| *granted == fence) || view == View::None;
        self.ghosts += u64::from(is_new && log.is_answered);
        let grant = (self.keys[key].lives.len() - 1, fence);
        log.grants.push(grant);
        if is_new && self.is_doubled {
            log.doubled.push(grant);
        }
        if let Some(life) = self.keys[key].lives.last_mut() {
            (life.fence, life.owner) = (fence, owner);
            if is_new {
                life.is_doubled = self.is_doubled;
            }
            life.kept(moment.now, sent.policy.ttl());
            life.extend(until, moment.at);
        }
        let expires = self.life(key).map(|life| life.expires);
        let is_right = lease.owner() == sent.owner
            && lease.id() == sent.id
            && lease.fingerprint() == sent.fingerprint
            && lease.until() == until
            && Some(lease.expires()) == expires;
        require(Rule::Decided, Some(key), moment, is_right, || {
            format!(
                "the lease should last until {until} and the record until {expires:?}: {lease:?}"
            )
        })
    }

    fn may_be_granted(&self, moment: Moment, key: usize, view: View) -> Verdict {
        let policy = &self.keys[key].policy;
        let (rule, holds): (Rule, bool) = match view {
            View::None | View::Released | View::Own => return Ok(()),
            View::OfAnotherRequest => (Invariant::MismatchIsInert.into(), false),
            View::Settled => (Invariant::SettledIsFinal.into(), false),
            View::Leased => (Invariant::OneLease.into(), false),
            View::Held => (Rule::NotAgain, false),
            View::HandedBack => (Rule::NoOrphans, false),
            View::Abandoned => (Rule::NotAgain, policy.on_abandoned() == OnAbandoned::Reexecute),
        };
        require(rule, Some(key), moment, holds, || {
            format!("a lease was granted on a record that is {view:?}")
        })?;
        self.lapse_is_explained(moment, key)
    }

    /// A lease ran out: something kept its holder from renewing it.
    fn lapse_is_explained(&self, moment: Moment, key: usize) -> Verdict {
        let Some(life) = self.life(key) else {
            return Ok(());
        };
        let holder = self.by_owner.get(&life.owner).map(|attempt| self.attempts[*attempt].node);
        let is_explained = holder.is_none_or(|node| self.is_explained(node, life.extended));
        require(Rule::Explained, Some(key), moment, is_explained, || {
            format!("the lease of {} ran out for no reason", self.attempt_word(life.owner))
        })
    }

    fn begin_life(&mut self, moment: Moment, key: usize, sent: &ClaimSent) {
        let lives = &mut self.keys[key].lives;
        if let Some(last) = lives.last_mut() {
            last.replaced = Some(moment.at);
        }
        lives.push(Life {
            fingerprint: sent.fingerprint,
            expires: moment.now.plus(sent.policy.ttl()),
            fence: 0,
            owner: 0,
            stage: Stage::Released,
            settled_at: None,
            extended: moment.at,
            replaced: None,
            is_swept: false,
            is_doubled: false,
            executions: Vec::new(),
            effects: 0,
        });
    }

    fn replayed(
        &mut self,
        moment: Moment,
        key: usize,
        view: View,
        settlement: &Settlement,
        expires: Timestamp,
    ) -> Verdict {
        let fails = self.keys[key].policy.on_abandoned() == OnAbandoned::Fail;
        if view == View::Abandoned && fails && *settlement == Settlement::Abandoned {
            self.lapse_is_explained(moment, key)?;
            if let Some(life) = self.keys[key].lives.last_mut() {
                life.settle(Settlement::Abandoned, moment.at);
            }
        } else {
            let rule = if view == View::OfAnotherRequest {
                Invariant::MismatchIsInert.into()
            } else {
                refused_wrongly(view)
            };
            require(rule, Some(key), moment, view == View::Settled, || {
                format!("a claim on a record that is {view:?} was answered with a replay")
            })?;
        }
        self.is_recorded(moment, key, settlement, expires)
    }
}

/// A settled record that is not replayed is lost; all else is against the state machine.
fn refused_wrongly(view: View) -> Rule {
    if view == View::Settled { Invariant::SettledIsFinal.into() } else { Rule::Decided }
}
