//! What many runs came to, and the ledger of them.

mod sum;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::checker::{Report, counts};
use crate::time::today;

/// The ends of the columns: rows are added after this line.
const TABLE: &str = "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|";

/// The sum of many runs.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// How many.
    pub runs: u64,
    /// How many more could not be run to their end.
    pub failed: u64,
    /// The seeds, in order.
    pub seeds: Vec<u64>,
    /// For how long there were faults, in microseconds.
    pub faulty_micros: u64,
    /// Requests.
    pub requests: u64,
    /// Records.
    pub keys: u64,
    /// Executions.
    pub executions: u64,
    /// Takeovers after a lease ran out, by store.
    pub takeovers: BTreeMap<String, u64>,
    /// Writes that stores refused because of their fence.
    pub refused: u64,
    /// Faults, by kind.
    pub faults: BTreeMap<String, u64>,
    /// Keys that a weak store lost in a failover.
    pub losses: u64,
    /// What was wrong.
    pub violations: u64,
}

// === impl Totals ===

impl Totals {
    /// Adds a run.
    pub fn add(&mut self, report: &Report) {
        self.runs += 1;
        self.seeds.push(report.seed);
        self.faulty_micros += report.faulty_micros;
        self.requests += report.requests;
        self.keys += report.keys;
        self.executions += report.executions;
        *self.takeovers.entry(report.store.clone()).or_default() += report.takeovers;
        self.refused += report.refused;
        for (kind, count) in &report.faults {
            *self.faults.entry(kind.clone()).or_default() += count;
        }
        self.losses += report.losses.len() as u64;
        self.violations += report.violations.len() as u64;
    }

    /// Was everything run, and nothing wrong?
    pub fn is_good(&self) -> bool {
        self.violations == 0 && self.failed == 0
    }

    fn of_kinds(&self, begins: &[&str]) -> u64 {
        let is_one = |kind: &str| begins.iter().any(|begin| kind.starts_with(begin));
        self.faults.iter().filter(|(kind, _)| is_one(kind)).map(|(_, count)| count).sum()
    }

    /// `kill -9` of gateways and servers.
    pub fn kills(&self) -> u64 {
        self.of_kinds(&["gateway-kill", "store-kill", "store-failover", "near-kill"])
    }

    /// Faults of networks.
    pub fn network_faults(&self) -> u64 {
        self.of_kinds(&["front-", "back-"])
    }

    /// Servers of stores that were started again.
    pub fn store_restarts(&self) -> u64 {
        self.of_kinds(&["store-kill", "store-restart", "store-failover", "near-kill"])
    }

    fn seeds(&self) -> String {
        match (self.seeds.iter().min(), self.seeds.iter().max()) {
            (Some(first), Some(last)) if first != last => format!("{first}–{last}"),
            (Some(only), _) => only.to_string(),
            _ => String::new(),
        }
    }

    /// A row of the ledger.
    fn row(&self, commit: &str) -> String {
        let hours = self.faulty_micros / 36_000_000;
        let cells = [
            today(),
            commit.to_owned(),
            self.runs.to_string(),
            self.seeds(),
            format!("{}.{:02}", hours / 100, hours % 100),
            self.requests.to_string(),
            self.keys.to_string(),
            self.kills().to_string(),
            self.network_faults().to_string(),
            self.store_restarts().to_string(),
            // Stalls are nobody's doing.
            (self.of_kinds(&[""]) - self.of_kinds(&["stall"])).to_string(),
            counts(&self.takeovers),
            self.refused.to_string(),
            self.losses.to_string(),
            self.violations.to_string(),
        ];
        format!("| {} |", cells.join(" | "))
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} runs, {} minutes of faults: {} requests, {} keys, {} executions",
            self.runs,
            self.faulty_micros / 60_000_000,
            self.requests,
            self.keys,
            self.executions
        )?;
        writeln!(f, "faults: {}", counts(&self.faults))?;
        writeln!(
            f,
            "kill -9: {}, network faults: {}, restarts of servers: {}",
            self.kills(),
            self.network_faults(),
            self.store_restarts()
        )?;
        writeln!(f, "takeovers: {}", counts(&self.takeovers))?;
        writeln!(f, "stale writes refused: {}", self.refused)?;
        writeln!(f, "lost by failovers, as a weak store may: {}", self.losses)?;
        if self.failed > 0 {
            writeln!(f, "runs that could not be run to their end: {}", self.failed)?;
        }
        write!(f, "violations: {}", self.violations)
    }
}

/// Adds one row to the ledger in a file, and sums all rows up below. Rows are never changed or removed.
pub fn append_row(file: &Path, totals: &Totals) -> anyhow::Result<()> {
    let text = std::fs::read_to_string(file).with_context(|| format!("{}", file.display()))?;
    let table = text.find(TABLE).with_context(|| format!("no ledger in {}", file.display()))?;
    let (before, ledger) = text.split_at(table + TABLE.len());
    let mut rows: Vec<&str> = ledger.lines().filter(|line| line.starts_with('|')).collect();
    let row = totals.row(&commit());
    rows.push(&row);
    let sum = sum::of_rows(&rows)?;
    let rest = ledger.lines().skip(1).skip_while(|line| line.starts_with('|'));
    let rest: Vec<&str> = rest.skip_while(|line| line.is_empty() || sum::is_one(line)).collect();
    let mut parts = vec![format!("{before}\n{}\n\n{sum}\n", rows.join("\n"))];
    if !rest.is_empty() {
        parts.push(rest.join("\n") + "\n");
    }
    std::fs::write(file, parts.join("\n"))?;
    Ok(())
}

fn commit() -> String {
    let run = || -> anyhow::Result<String> {
        let here = env!("CARGO_MANIFEST_DIR");
        let git =
            |arguments: &[&str]| Command::new("git").current_dir(here).args(arguments).output();
        let head = git(&["rev-parse", "--short", "HEAD"])?;
        ensure!(head.status.success(), "no repository");
        let changed = !git(&["status", "--porcelain", "--", ".."])?.stdout.is_empty();
        let head = String::from_utf8_lossy(&head.stdout).trim().to_owned();
        Ok(if changed { format!("{head} and changes") } else { head })
    };
    run().unwrap_or_else(|_| "?".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(seed: u64, takeovers: u64) -> Totals {
        let mut totals = Totals::default();
        let (store, faulty_micros) = ("redis".to_owned(), 90 * 36_000_000);
        totals.add(&Report { seed, store, takeovers, faulty_micros, ..Report::default() });
        totals
    }

    #[test]
    fn a_row_comes_after_those_that_are_there_and_all_are_summed_up() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let text = format!("# Proof\n\n| date | …\n{TABLE}\n\nMore.\n");
        std::fs::write(file.path(), text).expect("written");
        append_row(file.path(), &totals(7, 3)).expect("a row");
        append_row(file.path(), &totals(8, 4)).expect("another");
        let after = std::fs::read_to_string(file.path()).expect("read");
        let rows: Vec<&str> = after.lines().skip_while(|line| *line != TABLE).skip(1).collect();
        assert!(rows[0].contains("| 1 | 7 | 0.90 |"), "{after}");
        assert!(rows[1].contains("| 1 | 8 | 0.90 |"), "{after}");
        assert!(rows[3].starts_with("All rows together: 2 runs; 1.80 hours of faults; 0 requests"));
        assert!(rows[3].contains("takeovers: redis 7; "), "{after}");
        assert_eq!(rows[4..], ["", "More."], "{after}");
    }

    #[test]
    fn faults_are_summed_by_what_they_are() {
        let mut report = Report::default();
        for (kind, count) in [("gateway-kill", 2), ("store-kill", 3), ("front-cut", 5)] {
            report.faults.insert(kind.to_owned(), count);
        }
        let mut totals = Totals::default();
        totals.add(&report);
        totals.add(&report);
        assert_eq!((totals.kills(), totals.network_faults(), totals.store_restarts()), (10, 10, 6));
    }
}
