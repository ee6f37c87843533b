//! What a history came to.

use std::collections::BTreeMap;
use std::fmt;

use super::{IDLE, Rule};
use crate::history::{Head, Purpose, Route};

/// How many violations are shown. The rest is counted.
const SHOWN_MAX: usize = 20;

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// What was broken.
    pub rule: Rule,
    /// What it is about.
    pub subject: Subject,
    /// The lines of the history that show it.
    pub lines: Vec<u64>,
    /// As text.
    pub what: String,
}

/// What something can be wrong with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// With a record.
    Record {
        /// Its scope.
        scope: u8,
        /// Its route.
        route: Route,
        /// Its key.
        key: String,
    },
    /// With the gateway of this number.
    Gateway(usize),
}

/// What was counted, and what was wrong.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The seed of the run.
    pub seed: u64,
    /// Its store.
    pub store: String,
    /// The command that repeats it.
    pub command: String,
    /// Lines of the history.
    pub lines: u64,
    /// True if the run was completed. If not, an incomplete end is no violation.
    pub is_whole: bool,
    /// Requests that were sent.
    pub requests: u64,
    /// Of these, those that were sent while there were faults.
    pub requests_under_faults: u64,
    /// Of these, those that were answered, with an outcome or without.
    pub answered_under_faults: u64,
    /// All requests, those of the last reads included.
    pub last_reads: u64,
    /// Answers with an outcome.
    pub outcomes: u64,
    /// Of these, those that were not recorded yet.
    pub unrecorded: u64,
    /// Requests without an answer.
    pub unanswered: u64,
    /// Answers without an outcome, by code.
    pub refusals: BTreeMap<String, u64>,
    /// Records.
    pub keys: u64,
    /// Of these, those with an *unknown* answer at some time.
    pub unknown: u64,
    /// Of these, those that were executed more than once.
    pub executed_again: u64,
    /// Executions.
    pub executions: u64,
    /// Of these, those after another's lease ran out.
    pub takeovers: u64,
    /// Of these, those by a holder that was held up, and came after its successor.
    pub late: u64,
    /// Writes that stores refused because of their fence.
    pub refused: u64,
    /// Faults, by kind.
    pub faults: BTreeMap<String, u64>,
    /// For how long there were faults, in microseconds.
    pub faulty_micros: u64,
    /// How often each rule was tried without anything that would have excused its breach.
    pub trials: BTreeMap<Rule, u64>,
    /// What was wrong.
    pub violations: Vec<Violation>,
    /// What a weak store lost in a failover, as it may.
    pub losses: Vec<Violation>,
    /// True while there are faults.
    is_faulty: bool,
}

// === impl Report ===

impl Report {
    pub(super) fn new(head: &Head) -> Self {
        let (store, command) = (head.store.clone(), head.command.clone());
        Self { seed: head.seed, store, command, ..Self::default() }
    }

    pub(super) fn phase(&mut self, name: &str, t: u64) {
        match name {
            "faults" => self.faulty_micros = t,
            "calm" => self.faulty_micros = t.saturating_sub(self.faulty_micros),
            "over" => self.is_whole = true,
            _ => (),
        }
        self.is_faulty = name == "faults";
    }

    /// True if there were faults when it was sent.
    pub(super) fn sent(&mut self, purpose: Purpose) -> bool {
        self.requests += 1;
        self.requests_under_faults += u64::from(self.is_faulty);
        self.last_reads += u64::from(purpose == Purpose::Read);
        self.is_faulty
    }

    /// The names of all that was broken, each once.
    pub fn broken(&self) -> Vec<&'static str> {
        let mut rules: Vec<Rule> = self.violations.iter().map(|violation| violation.rule).collect();
        rules.sort();
        rules.dedup();
        rules.into_iter().map(Rule::as_str).collect()
    }

    /// How often each rule was tried in earnest, by name.
    pub(crate) fn trials(&self) -> BTreeMap<String, u64> {
        self.trials.iter().map(|(rule, count)| (rule.to_string(), *count)).collect()
    }

    /// The number of faults, without those that had no effect.
    fn struck(&self) -> u64 {
        let struck = self.faults.iter().filter(|(kind, _)| !kind.ends_with(IDLE));
        struck.map(|(_, count)| count).sum()
    }

    /// For programs.
    pub fn to_json(&self) -> serde_json::Value {
        let Self { seed, store, requests, keys, takeovers, .. } = self;
        serde_json::json!({
            "seed": seed,
            "store": store,
            "requests": requests,
            "keys": keys,
            "takeovers": takeovers,
            "refused": self.refused,
            "faults": self.struck(),
            "losses": self.losses.len(),
            "violations": self.violations.len(),
            "broken": self.broken(),
            "trials": self.trials(),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = (self.faulty_micros / 1_000_000).max(1);
        writeln!(
            f,
            "{}, seed {}: {} requests ({} a second under faults), {} outcomes answered, {} keys, {} executions",
            self.store,
            self.seed,
            self.requests,
            self.requests_under_faults / seconds,
            self.outcomes,
            self.keys,
            self.executions
        )?;
        writeln!(
            f,
            "  {} takeovers, {} keys executed again, {} late executions, {} stale writes refused, \
             {} keys unknown, {} outcomes unrecorded, {} requests unanswered",
            self.takeovers,
            self.executed_again,
            self.late,
            self.refused,
            self.unknown,
            self.unrecorded,
            self.unanswered
        )?;
        writeln!(f, "  faults: {}", counts(&self.faults))?;
        writeln!(f, "  refusals: {}", counts(&self.refusals))?;
        writeln!(f, "  tried without an excuse: {}", counts(&self.trials()))?;
        if !self.is_whole {
            writeln!(f, "  it broke off, so that nothing is said about how it would have ended")?;
        }
        if !self.losses.is_empty() {
            let by_rule = counts(&by_rule(&self.losses));
            writeln!(f, "  lost by a failover, as this store may: {by_rule}")?;
            self.losses.iter().take(SHOWN_MAX).try_for_each(|loss| writeln!(f, "    {loss}"))?;
        }
        write!(f, "  violations: {}", self.violations.len())?;
        let shown = self.violations.iter().take(SHOWN_MAX);
        shown.into_iter().try_for_each(|violation| write!(f, "\n    {violation}"))
    }
}

fn by_rule(violations: &[Violation]) -> BTreeMap<String, u64> {
    let mut counted = BTreeMap::new();
    for violation in violations {
        *counted.entry(violation.rule.to_string()).or_default() += 1;
    }
    counted
}

/// `one 1, other 2`.
pub(crate) fn counts(counted: &BTreeMap<String, u64>) -> String {
    let parts: Vec<String> =
        counted.iter().map(|(name, count)| format!("{name} {count}")).collect();
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, subject, lines, what } = self;
        write!(f, "{rule}: {subject}: {what} (lines {lines:?})")
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record { scope, route, key } => write!(f, "scope {scope}, /{route}, key {key}"),
            Self::Gateway(number) => write!(f, "gateway {number}"),
        }
    }
}
