//! The gateway's counters, from its `/metrics`.

use std::collections::BTreeMap;
use std::fmt;

/// Counts by decision. A restarted gateway counts from zero: the counts of the processes before it are
/// added, except those of the last moment before a kill.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    before: Counts,
    now: Counts,
}

type Counts = BTreeMap<String, u64>;

const METRIC: &str = "semel_attempts_total{";

// === impl Tally ===

impl Tally {
    /// Reads the gateway's current counters.
    pub(super) fn read(&mut self, metrics: &str) {
        self.now = counts(metrics);
    }

    /// The gateway died.
    pub(super) fn carry_over(&mut self) {
        for (decision, count) in std::mem::take(&mut self.now) {
            *self.before.entry(decision).or_default() += count;
        }
    }

    pub(super) fn of(&self, decision: &str) -> u64 {
        let get = |counts: &Counts| counts.get(decision).copied().unwrap_or_default();
        get(&self.before) + get(&self.now)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} executed, {} replayed", self.of("executed"), self.of("replayed"))?;
        write!(f, ", {} mismatched", self.of("mismatch"))?;
        let rest = [
            ("released", "failed and released"),
            ("in_flight", "refused as in progress"),
            ("key_missing", "without a key"),
        ];
        for (decision, words) in rest {
            match self.of(decision) {
                0 => {}
                count => write!(f, ", {count} {words}")?,
            }
        }
        Ok(())
    }
}

fn counts(metrics: &str) -> Counts {
    let mut counts = Counts::new();
    for line in metrics.lines().filter_map(|line| line.strip_prefix(METRIC)) {
        let Some((labels, value)) = line.rsplit_once("} ") else { continue };
        let decision = labels.split_once("decision=\"").and_then(|(_, rest)| rest.split_once('"'));
        if let (Some((decision, _)), Ok(value)) = (decision, value.trim().parse::<u64>()) {
            *counts.entry(decision.to_owned()).or_default() += value;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = "\
# TYPE semel_attempts_total counter
semel_attempts_total{route=\"POST /v1/charges\",mode=\"protect\",decision=\"executed\"} 2
semel_attempts_total{route=\"POST /v1/charges/{id}/refunds\",mode=\"protect\",decision=\"executed\"} 1
semel_attempts_total{route=\"*\",mode=\"protect\",decision=\"mismatch\"} 4
semel_waiters 7
";

    #[test]
    fn routes_are_added_up_and_restarts_survived() {
        let mut tally = Tally::default();
        tally.read(METRICS);
        assert_eq!(tally.to_string(), "3 executed, 0 replayed, 4 mismatched");
        tally.carry_over();
        tally.read("semel_attempts_total{decision=\"replayed\"} 1");
        assert_eq!((tally.of("executed"), tally.of("replayed")), (3, 1));
    }
}
