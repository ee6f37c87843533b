//! What many runs came to, and the ledger of them.

mod basis;
mod bound;
mod claims;
mod commit;
mod file;
mod kinds;
mod marks;
mod sum;

use std::collections::BTreeMap;
use std::fmt;

use crate::checker::{Report, Rule, counts};
use crate::run::Done;

use basis::Basis;
pub use file::{Ledger, Terms};

/// Rules that are about a store that comes back. What was tried on one store says nothing about the others.
const BY_STORE: [Rule; 4] =
    [Rule::SettlingGivenUp, Rule::SelfTakeover, Rule::FullStore, Rule::HeldUnexecuted];

/// Added to the name of a kind of fault that could not be run.
const NOT_RUN: &str = " NOT RUN";

/// The sum of many runs. Of failed runs only the violations are counted: the rest of their numbers has no known
/// meaning.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// How many came to their end.
    pub runs: u64,
    /// How many more did not.
    pub failed: u64,
    /// The seeds, in order.
    pub seeds: Vec<u64>,
    /// For how long there were faults, in microseconds.
    pub faulty_micros: u64,
    /// Requests that were sent while there were faults.
    pub requests_under_faults: u64,
    /// Requests of the last reads.
    pub last_reads: u64,
    /// Records.
    pub keys: u64,
    /// Executions.
    pub executions: u64,
    /// Takeovers after a lease ran out, by store.
    pub takeovers: BTreeMap<String, u64>,
    /// Writes that stores refused because of their fence.
    pub refused: u64,
    /// Faults, by kind; and what could not be run.
    pub faults: BTreeMap<String, u64>,
    /// How often each rule was tried without anything that would have excused its breach.
    pub trials: BTreeMap<String, u64>,
    /// What a weak store lost in a failover, by rule.
    pub losses: BTreeMap<String, u64>,
    /// What was wrong.
    pub violations: u64,
    /// What claims are made of.
    basis: Basis,
}

// === impl Totals ===

impl Totals {
    /// Adds a run that began.
    pub fn add(&mut self, done: &Done) {
        let report = &done.report;
        self.seeds.push(report.seed);
        self.violations += report.violations.len() as u64;
        for loss in &report.losses {
            *self.losses.entry(loss.rule.to_string()).or_default() += 1;
        }
        if done.failure.is_some() {
            self.failed += 1;
            return;
        }
        self.runs += 1;
        self.add_numbers(report);
        if let Some((kind, _)) = &done.missing {
            *self.faults.entry(format!("{kind}{NOT_RUN}")).or_default() += 1;
        }
    }

    /// Adds a run that could not even be begun.
    pub fn add_unbegun(&mut self, seed: u64) {
        self.seeds.push(seed);
        self.failed += 1;
    }

    fn add_numbers(&mut self, report: &Report) {
        self.faulty_micros += report.faulty_micros;
        self.requests_under_faults += report.requests_under_faults;
        self.last_reads += report.last_reads;
        self.keys += report.keys;
        self.executions += report.executions;
        *self.takeovers.entry(report.store.clone()).or_default() += report.takeovers;
        self.refused += report.refused;
        for (kind, count) in &report.faults {
            *self.faults.entry(kind.clone()).or_default() += count;
        }
        for (rule, count) in report.trials() {
            *self.trials.entry(rule).or_default() += count;
        }
        self.basis.add(report);
    }

    /// True if everything ran, without a violation.
    pub fn is_good(&self) -> bool {
        self.violations == 0 && self.failed == 0
    }

    /// `kill -9` of gateways and servers.
    pub fn kills(&self) -> u64 {
        kinds::kills(&self.faults)
    }

    fn lost(&self) -> u64 {
        self.losses.values().sum()
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} runs, {} minutes of faults: {} requests under faults, {} last reads, {} keys, {} executions",
            self.runs,
            self.faulty_micros / 60_000_000,
            self.requests_under_faults,
            self.last_reads,
            self.keys,
            self.executions
        )?;
        writeln!(f, "faults: {}", counts(&self.faults))?;
        writeln!(f, "{}", kinds::summed_up(&self.faults))?;
        writeln!(f, "takeovers: {}", counts(&self.takeovers))?;
        writeln!(f, "stale writes refused: {}", self.refused)?;
        writeln!(f, "tried without an excuse: {}", counts(&self.trials))?;
        writeln!(f, "tried by store:\n{}", claims::tried_by_store(self, &BY_STORE))?;
        writeln!(f, "lost by failovers, as a weak store may: {}", counts(&self.losses))?;
        if self.failed > 0 {
            writeln!(f, "runs that did not come to their end: {}", self.failed)?;
        }
        write!(f, "violations: {}", self.violations)
    }
}

#[cfg(test)]
mod tests;
