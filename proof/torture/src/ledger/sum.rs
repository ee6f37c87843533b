//! What all rows of the ledger come to.

use std::collections::BTreeMap;

use anyhow::{Context as _, ensure};

use super::file::COLUMNS;
use super::kinds;
use crate::checker::counts;

const ALL: &str = "- All rows together: ";
const FAULTS: &str = "- Faults: ";
const TRIALS: &str = "- Tried without an excuse: ";

/// True if it is a sum of earlier rows.
pub(super) fn is_one(line: &str) -> bool {
    [ALL, FAULTS, TRIALS].iter().any(|begin| line.starts_with(begin))
}

/// The sum of all rows, in a few lines.
pub(super) fn of_rows(rows: &[&str]) -> anyhow::Result<String> {
    let cells = |row: &str| row.split('|').map(|cell| cell.trim().to_owned()).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(|row| cells(row)).collect();
    // One more at each end, outside the bars.
    let is_whole = rows.iter().all(|row| row.len() == COLUMNS + 2);
    ensure!(is_whole, "a row of the ledger has not {COLUMNS} cells");
    let faults = counted(&rows, 16)?;
    let parts = [
        number(&rows, "runs", 3)?,
        number(&rows, "failed runs", 4)?,
        hours(&rows)?,
        number(&rows, "requests under faults", 9)?,
        number(&rows, "last reads", 10)?,
        number(&rows, "keys", 11)?,
        kinds::summed_up(&faults),
        format!("takeovers: {}", counts(&counted(&rows, 12)?)),
        number(&rows, "stale writes refused", 13)?,
        number(&rows, "lost by failovers", 14)?,
        number(&rows, "violations", 15)?,
    ];
    let trials = counted(&rows, 17)?;
    Ok(format!(
        "{ALL}{}.\n{FAULTS}{}.\n{TRIALS}{}.",
        parts.join("; "),
        counts(&faults),
        counts(&trials)
    ))
}

fn number(rows: &[Vec<String>], name: &str, column: usize) -> anyhow::Result<String> {
    let mut sum = 0_u64;
    for row in rows {
        let cell = &row[column];
        let count = cell.parse::<u64>();
        sum += count.with_context(|| format!("{name} in a row of the ledger: {cell:?}"))?;
    }
    Ok(format!("{sum} {name}"))
}

/// Cells have two digits after the point.
fn hours(rows: &[Vec<String>]) -> anyhow::Result<String> {
    let mut hundredths = 0_u64;
    for row in rows {
        hundredths += row[8].replace('.', "").parse::<u64>().context("hours in the ledger")?;
    }
    Ok(format!("{}.{:02} hours of faults", hundredths / 100, hundredths % 100))
}

/// The sums of cells such as `one 1, other 2`.
fn counted(rows: &[Vec<String>], column: usize) -> anyhow::Result<BTreeMap<String, u64>> {
    let mut sums = BTreeMap::new();
    for cell in rows.iter().map(|row| &row[column]).filter(|cell| *cell != "none") {
        for part in cell.split(", ") {
            let counted = part.rsplit_once(' ');
            let (name, count) =
                counted.with_context(|| format!("counts in the ledger: {part:?}"))?;
            *sums.entry(name.to_owned()).or_default() += count.parse::<u64>()?;
        }
    }
    Ok(sums)
}
