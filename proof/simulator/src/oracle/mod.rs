//! What must be true, kept apart from the code under test.
//!
//! The oracle receives three kinds of events: the verbs of the store and their answers, the executions with
//! their fences, and the answers to clients. It has its own model of the state machine, written from the
//! design and not from `semel-core`, and shares no function with it.

mod answers;
mod claims;
mod effects;
mod ending;
mod fenced;
mod life;

use std::collections::BTreeMap;
use std::time::Duration;

use semel_core::invariants::Invariant;
use semel_core::{Fingerprint, Outcome, Owner, Policy, RecordId, Settlement, Timestamp};

use crate::plan::Plan;
use crate::{Fault, Rule, Statistics, Violation};
use life::Life;

/// How long after a fault its consequences may show: a hanging verb, then a pause before the next try.
const AFTERMATH: Duration = Duration::from_mins(2);

/// The oracle's judgement of an event.
pub(crate) type Verdict = Result<(), Violation>;

/// Now, in simulated time and on the store's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) at: Duration,
    pub(crate) now: Timestamp,
}

/// All events of a run.
pub(crate) struct Oracle {
    keys: Vec<KeyLog>,
    attempts: Vec<AttemptLog>,
    by_owner: BTreeMap<u128, usize>,
    /// Per node: until when it was last kept from doing its part.
    troubled: Vec<Option<Duration>>,
    /// Per node: how many processes have ended.
    processes: Vec<usize>,
    /// Whether the store's clock went back.
    went_back: bool,
    /// Whether the present event is the second copy of a verb whose first one was answered.
    is_doubled: bool,
    ghosts: u64,
}

/// What is known of a key.
struct KeyLog {
    id: RecordId,
    policy: Policy,
    lives: Vec<Life>,
}

/// What is known of an attempt.
struct AttemptLog {
    key: usize,
    fingerprint: Fingerprint,
    node: usize,
    /// Which process of the node it is in.
    process: usize,
    began: Moment,
    /// The lives and fences of the leases that it was granted.
    grants: Vec<(usize, u64)>,
    /// Those of them that the second copy of an answered claim was granted, which no attempt recovers.
    doubled: Vec<(usize, u64)>,
    execution: Option<ExecutionLog>,
    is_answered: bool,
    /// Whether its node ended before it did.
    is_cut: bool,
}

/// What is known of an execution.
struct ExecutionLog {
    /// The life and fence of its lease, unless it was executed without protection.
    lease: Option<(usize, u64)>,
    ended: Option<Ended>,
    ended_at: Duration,
    /// Whether the store has answered the write of its end: written, or never to be written.
    is_answered: bool,
    /// Whether the store refused it because of a later lease, which may be one of the same process.
    is_superseded: bool,
}

/// How a piece of work ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    With(Outcome),
    Panicked,
}

// === impl Oracle ===

impl Oracle {
    pub(crate) fn new(plan: &Plan) -> Self {
        let log = |key: &crate::plan::PlannedKey| KeyLog {
            id: key.id,
            policy: key.policy.clone(),
            lives: Vec::new(),
        };
        Self {
            keys: plan.keys.iter().map(log).collect(),
            attempts: Vec::new(),
            by_owner: BTreeMap::new(),
            troubled: vec![None; plan.nodes],
            processes: vec![0; plan.nodes],
            went_back: false,
            is_doubled: false,
            ghosts: 0,
        }
    }

    /// An attempt begins; the number is its name from now on.
    pub(crate) fn attempt(
        &mut self,
        moment: Moment,
        (key, node): (usize, usize),
        fingerprint: Fingerprint,
        owner: Owner,
    ) -> Result<usize, Violation> {
        let number = self.attempts.len();
        let is_new = self.by_owner.insert(owner.as_u128(), number).is_none();
        require(Rule::Decided, Some(key), moment, is_new, || "an owner was used twice".to_owned())?;
        self.attempts.push(AttemptLog {
            key,
            fingerprint,
            node,
            process: self.processes[node],
            began: moment,
            grants: Vec::new(),
            doubled: Vec::new(),
            execution: None,
            is_answered: false,
            is_cut: false,
        });
        Ok(number)
    }

    /// A node, or every one, is kept from doing its part until then.
    pub(crate) fn troubled(&mut self, node: Option<usize>, until: Duration) {
        for (number, troubled) in self.troubled.iter_mut().enumerate() {
            if node.is_none_or(|node| node == number) {
                *troubled = (*troubled).max(Some(until));
            }
        }
    }

    pub(crate) fn clock_went_back(&mut self) {
        self.went_back = true;
    }

    /// The events from now on are of the second copy of a verb whose first one was answered, or no longer are.
    pub(crate) fn doubled(&mut self, is_doubled: bool) {
        self.is_doubled = is_doubled;
    }

    /// The process of a node ended: what it had begun need not come to an end.
    pub(crate) fn node_ended(&mut self, node: usize) {
        self.processes[node] += 1;
        for attempt in self.attempts.iter_mut().filter(|attempt| attempt.node == node) {
            attempt.is_cut = true;
        }
    }

    /// Whether this node had a fault since then, or shortly before.
    fn is_explained(&self, node: usize, since: Duration) -> bool {
        self.troubled[node].is_some_and(|until| until + AFTERMATH >= since)
    }

    fn life(&self, key: usize) -> Option<&Life> {
        self.keys[key].lives.last()
    }

    fn live(&self, key: usize, now: Timestamp) -> Option<&Life> {
        self.life(key).filter(|life| life.is_live(now))
    }

    /// The answered outcome is the recorded one.
    fn is_recorded(
        &self,
        moment: Moment,
        key: usize,
        settlement: &Settlement,
        expires: Timestamp,
    ) -> Verdict {
        let recorded = self.life(key).and_then(Life::settled);
        require(Invariant::SameAnswer, Some(key), moment, recorded == Some(settlement), || {
            format!("{} was answered, and {} is recorded", word(Some(settlement)), word(recorded))
        })?;
        let known = self.life(key).map(|life| life.expires);
        require(Rule::Decided, Some(key), moment, known == Some(expires), || {
            format!("the answer had the expiry {expires}, not {known:?}")
        })
    }

    pub(crate) fn key_word(&self, id: RecordId) -> String {
        self.key_of(id).map_or_else(|| "k?".to_owned(), |key| format!("k{key}"))
    }

    pub(crate) fn attempt_word(&self, owner: u128) -> String {
        self.by_owner.get(&owner).map_or_else(|| "a?".to_owned(), |number| format!("a{number}"))
    }

    fn key_of(&self, id: RecordId) -> Option<usize> {
        self.keys.iter().position(|key| key.id == id)
    }

    /// Adds what the oracle has counted.
    pub(crate) fn sum_up(&self, statistics: &mut Statistics) {
        let executions = self.attempts.iter().filter_map(|attempt| attempt.execution.as_ref());
        for execution in executions {
            match execution.lease {
                Some(_) => statistics.executions += 1,
                None => statistics.bypassed += 1,
            }
        }
        let lives = self.keys.iter().map(|key| key.lives.len()).sum::<usize>();
        statistics.lives += u64::try_from(lives).unwrap_or(u64::MAX);
        for _ in self.keys.iter().flat_map(|key| key.lives.iter().skip(1)) {
            statistics.count(Fault::Reuse);
        }
        statistics.ghosts += self.ghosts;
    }
}

/// A rule is broken unless `holds`.
pub(crate) fn require(
    rule: impl Into<Rule>,
    key: Option<usize>,
    moment: Moment,
    holds: bool,
    what: impl FnOnce() -> String,
) -> Verdict {
    if holds {
        return Ok(());
    }
    Err(Violation { rule: rule.into(), key, at: moment.at, what: what() })
}

/// The violation by an event of an attempt that does not exist.
fn unknown_attempt(rule: Invariant, moment: Moment) -> Violation {
    let what = "of an attempt that does not exist".to_owned();
    Violation { rule: rule.into(), key: None, at: moment.at, what }
}

/// A settlement with its bytes, for reports: there are no customers here.
fn word(settlement: Option<&Settlement>) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match settlement {
        None => "nothing".to_owned(),
        Some(Settlement::Abandoned) => "abandoned".to_owned(),
        Some(Settlement::Completed(reply)) => format!("completed {:?}", text(reply.bytes())),
        Some(Settlement::Failed(reply)) => format!("failed {:?}", text(reply.bytes())),
    }
}

#[cfg(test)]
mod tests;
