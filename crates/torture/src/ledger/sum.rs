//! What all rows of the ledger come to.

use std::collections::BTreeMap;

use anyhow::Context as _;

use crate::checker::counts;

const BEGIN: &str = "All rows together: ";

/// Is it a sum of earlier rows?
pub(super) fn is_one(line: &str) -> bool {
    line.starts_with(BEGIN)
}

/// The sum of all rows, in one line.
pub(super) fn of_rows(rows: &[&str]) -> anyhow::Result<String> {
    let cells = |row: &str| row.split('|').map(|cell| cell.trim().to_owned()).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(|row| cells(row)).collect();
    let sum = |name: &str, column: usize| -> anyhow::Result<String> {
        let mut sum = 0_u64;
        for row in &rows {
            sum += number(row, column).with_context(|| format!("{name} in a row of the ledger"))?;
        }
        Ok(format!("{sum} {name}"))
    };
    let mut parts = vec![sum("runs", 3)?, hours(&rows)?, sum("requests", 6)?, sum("keys", 7)?];
    parts.extend([sum("kill -9", 8)?, sum("network faults", 9)?]);
    parts.extend([sum("restarts of servers", 10)?, sum("faults in all", 11)?]);
    parts.push(format!("takeovers: {}", counts(&takeovers(&rows)?)));
    parts.extend([sum("lost by failovers", 14)?, sum("violations", 15)?]);
    Ok(format!("{BEGIN}{}.", parts.join("; ")))
}

fn number(row: &[String], column: usize) -> anyhow::Result<u64> {
    let cell = row.get(column).context("a cell is missing")?;
    cell.parse().with_context(|| format!("{cell:?} is no number"))
}

/// Cells have two digits after the point.
fn hours(rows: &[Vec<String>]) -> anyhow::Result<String> {
    let mut hundredths = 0_u64;
    for row in rows {
        let cell = row.get(5).context("a cell is missing")?;
        hundredths += cell.replace('.', "").parse::<u64>().context("hours")?;
    }
    Ok(format!("{}.{:02} hours of faults", hundredths / 100, hundredths % 100))
}

fn takeovers(rows: &[Vec<String>]) -> anyhow::Result<BTreeMap<String, u64>> {
    let mut sums = BTreeMap::new();
    for cell in rows.iter().filter_map(|row| row.get(12)).filter(|cell| *cell != "none") {
        for part in cell.split(", ") {
            let (store, count) = part.rsplit_once(' ').context("takeovers of a store")?;
            *sums.entry(store.to_owned()).or_default() += count.parse::<u64>()?;
        }
    }
    Ok(sums)
}
