//! What claims are made of.

use std::collections::BTreeMap;

use super::kinds;
use crate::checker::{Report, Rule};
use crate::stores::StoreKind;

/// Of all runs that came to their end.
#[derive(Clone, Debug, Default)]
pub(super) struct Basis {
    /// Runs without a promotion, except orderly ones.
    pub(super) plain: Sample,
    /// The others. Most of what could go wrong in them would be excused, so that they prove little.
    pub(super) promoted: Sample,
    /// How often each rule was tried without an excuse, by store, in either kind.
    trials: BTreeMap<(Rule, String), u64>,
}

/// What some runs had.
#[derive(Clone, Debug, Default)]
pub(super) struct Sample {
    pub(super) runs: u64,
    faults: BTreeMap<String, u64>,
    /// By store.
    takeovers: BTreeMap<String, u64>,
    answered_under_faults: u64,
    /// Keys that were asked for in the end.
    keys: u64,
}

// === impl Basis ===

impl Basis {
    pub(super) fn add(&mut self, report: &Report) {
        let is_promoted = kinds::has_promotion(&report.faults);
        let sample = if is_promoted { &mut self.promoted } else { &mut self.plain };
        sample.add(report);
        for (rule, count) in &report.trials {
            *self.trials.entry((*rule, report.store.clone())).or_default() += count;
        }
    }

    pub(super) fn trials(&self, rule: Rule, store: StoreKind) -> u64 {
        self.trials.get(&(rule, store.as_str().to_owned())).copied().unwrap_or_default()
    }
}

// === impl Sample ===

impl Sample {
    fn add(&mut self, report: &Report) {
        self.runs += 1;
        for (kind, count) in &report.faults {
            *self.faults.entry(kind.clone()).or_default() += count;
        }
        *self.takeovers.entry(report.store.clone()).or_default() += report.takeovers;
        self.answered_under_faults += report.answered_under_faults;
        self.keys += report.trials.get(&Rule::Liveness).copied().unwrap_or_default();
    }

    /// What claims are about, and how often it was there.
    pub(super) fn counts(&self) -> Vec<(u64, String)> {
        let faults = [
            (kinds::kills_of_gateways(&self.faults), "`kill -9` of gateways"),
            (kinds::kills_of_servers(&self.faults), "`kill -9` of servers"),
            (kinds::of_networks(&self.faults), "network faults"),
            (kinds::restarts(&self.faults), "restarts of servers"),
        ];
        let others = [
            (
                self.answered_under_faults,
                "requests under faults that were answered, refusals included",
            ),
            (self.keys, "keys asked for in the end"),
        ];
        let named = |(count, what): (u64, &str)| (count, what.to_owned());
        let faults = faults.into_iter().map(named);
        faults.chain(self.takeovers()).chain(others.into_iter().map(named)).collect()
    }

    /// Of each store that gateways share. Where there is one gateway it can only follow itself.
    fn takeovers(&self) -> impl Iterator<Item = (u64, String)> {
        let shared = StoreKind::ALL.into_iter().filter(|store| store.gateways() > 1);
        shared.map(|store| {
            let count = self.takeovers.get(store.as_str()).copied().unwrap_or_default();
            (count, format!("takeovers of leases on {}", store.as_str()))
        })
    }
}
