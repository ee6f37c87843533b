//! The file with the ledger.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use super::{Totals, claims, commit, marks, sum};
use crate::checker::counts;
use crate::stores::StoreKind;
use crate::time::today;

/// The columns. They are numbered from 1 on, as a row begins with a bar.
const HEAD: &str = "| date | commit | runs | failed runs | seeds | stores in turn | seconds each | hours of faults \
| requests under faults | last reads | keys | takeovers | stale writes refused | lost by failovers | violations \
| faults | tried without an excuse |";
pub(super) const SEEDS: usize = 5;
pub(super) const COLUMNS: usize = 17;

/// Between two seeds.
const TO: char = '–';

/// The ledger, to which a deep run adds one row: rewritten after each of its runs, and never later. With it go the
/// claims, between two marks.
#[derive(Debug)]
pub struct Ledger {
    file: PathBuf,
    commit: String,
    day: String,
    terms: Terms,
    /// The row as it was last written.
    row: Option<String>,
}

/// How the runs of a row are made, so that each can be repeated by its seed.
#[derive(Clone, Debug)]
pub struct Terms {
    /// The first seed is on the first, and so on in turn.
    pub stores: Vec<StoreKind>,
    /// How long each run has faults.
    pub seconds: u64,
}

/// What is before the rows, the rows, and what is after them and their sum.
struct Parts<'a> {
    before: &'a str,
    rows: Vec<&'a str>,
    after: Vec<&'a str>,
}

// === impl Ledger ===

impl Ledger {
    /// Fails if there is no ledger in the file or no place for claims, if it cannot be read or written, or
    /// if the sources have changes that are in no commit: before anything is run, and not hours later.
    pub fn open(file: &Path, terms: Terms) -> anyhow::Result<Self> {
        let commit = commit::current(Path::new(env!("CARGO_MANIFEST_DIR")), file)?;
        Self::of_commit(file, terms, commit)
    }

    pub(super) fn of_commit(file: &Path, terms: Terms, commit: String) -> anyhow::Result<Self> {
        let text = read(file)?;
        sum::of_rows(&Parts::of(&text, file)?.rows)?;
        marks::around(&text, file)?;
        std::fs::OpenOptions::new()
            .append(true)
            .open(file)
            .with_context(|| format!("{} cannot be written", file.display()))?;
        Ok(Self { file: file.to_owned(), commit, day: today(), terms, row: None })
    }

    /// The first seed that no row has.
    pub fn next_seed(&self) -> anyhow::Result<u64> {
        let text = read(&self.file)?;
        let mut next = 1;
        for row in Parts::of(&text, &self.file)?.rows {
            let cell = row.split('|').nth(SEEDS).unwrap_or_default().trim();
            let last = cell.rsplit(TO).next().unwrap_or_default();
            let last: u64 =
                last.parse().with_context(|| format!("seeds in the ledger: {cell:?}"))?;
            next = next.max(last + 1);
        }
        Ok(next)
    }

    /// Checks that the sums below are those of the rows.
    #[cfg(test)]
    pub(super) fn is_summed_up(&self) -> anyhow::Result<bool> {
        let text = read(&self.file)?;
        let sums = sum::of_rows(&Parts::of(&text, &self.file)?.rows)?;
        Ok(text.contains(&format!("\n\n{sums}\n")))
    }

    /// Writes the row of this deep run, in place of the one that it had before, and sums all rows up below;
    /// and what may be claimed by it, in place of all earlier claims.
    pub fn write(&mut self, totals: &Totals) -> anyhow::Result<()> {
        let claims = claims::of(&self.commit, totals);
        let text = marks::filled(&read(&self.file)?, &self.file, &claims)?;
        let Parts { before, mut rows, after } = Parts::of(&text, &self.file)?;
        let row = self.row_of(totals);
        match rows.iter_mut().rev().find(|known| self.row.as_deref() == Some(**known)) {
            Some(own) => *own = &row,
            None => rows.push(&row),
        }
        let mut parts =
            vec![format!("{before}\n{}\n\n{}\n", rows.join("\n"), sum::of_rows(&rows)?)];
        if !after.is_empty() {
            parts.push(after.join("\n") + "\n");
        }
        // A kill in the middle leaves the old file.
        let new = self.file.with_extension("new");
        std::fs::write(&new, parts.join("\n"))?;
        std::fs::rename(&new, &self.file)?;
        self.row = Some(row);
        Ok(())
    }

    fn row_of(&self, totals: &Totals) -> String {
        let hours = totals.faulty_micros / 36_000_000;
        let stores: Vec<&str> = self.terms.stores.iter().map(|store| store.as_str()).collect();
        let cells: [String; COLUMNS] = [
            self.day.clone(),
            self.commit.clone(),
            totals.runs.to_string(),
            totals.failed.to_string(),
            seeds(&totals.seeds),
            stores.join(", "),
            self.terms.seconds.to_string(),
            format!("{}.{:02}", hours / 100, hours % 100),
            totals.requests_under_faults.to_string(),
            totals.last_reads.to_string(),
            totals.keys.to_string(),
            counts(&totals.takeovers),
            totals.refused.to_string(),
            totals.lost().to_string(),
            totals.violations.to_string(),
            counts(&totals.faults),
            counts(&totals.trials),
        ];
        format!("| {} |", cells.join(" | "))
    }
}

// === impl Parts ===

impl<'a> Parts<'a> {
    fn of(text: &'a str, file: &Path) -> anyhow::Result<Self> {
        let shown = file.display();
        let ruler = ruler(COLUMNS);
        let head = text.find(HEAD).with_context(|| {
            format!("no ledger in {shown}: it begins with these columns:\n{HEAD}\n{ruler}")
        })?;
        let rest = text[head + HEAD.len()..].strip_prefix('\n').unwrap_or_default();
        ensure!(rest.starts_with(&ruler), "the columns of the ledger in {shown} have no {ruler}");
        let (before, ledger) = text.split_at(head + HEAD.len() + 1 + ruler.len());
        let is_row = |line: &&str| line.starts_with('|');
        let rows = ledger.lines().skip(1).take_while(is_row).collect();
        let after = ledger.lines().skip(1).skip_while(is_row);
        let after = after.skip_while(|line| line.is_empty() || sum::is_one(line)).collect();
        Ok(Self { before, rows, after })
    }
}

fn read(file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

/// What is below the names of so many columns.
pub(super) fn ruler(columns: usize) -> String {
    "|---".repeat(columns) + "|"
}

/// They follow each other.
pub(super) fn seeds(seeds: &[u64]) -> String {
    match (seeds.iter().min(), seeds.iter().max()) {
        (Some(first), Some(last)) if first != last => format!("{first}{TO}{last}"),
        (Some(only), _) => only.to_string(),
        _ => String::new(),
    }
}

/// An empty ledger, below a place for claims.
#[cfg(test)]
pub(super) fn empty() -> String {
    format!("{}\n{}\n\n{HEAD}\n{}\n", marks::BEGIN, marks::END, ruler(COLUMNS))
}
