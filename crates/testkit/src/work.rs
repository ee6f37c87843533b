//! What the engine does with its files besides writing its log, as far as their names tell.
//!
//! A crash while a table is written, a log rotated or tables merged is another test than one while the
//! log is written. With the engine's usual sizes short rounds never get that far, so the crash tests
//! use small memtables ([`MEMTABLE_BYTES`]) and some large replies, and count here what came of it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;

/// The size of the engine's memtables in crash tests: a round fills several.
pub const MEMTABLE_BYTES: u64 = 1 << 20;

/// The files that a store was seen to have.
#[derive(Clone, Debug, Default)]
pub struct Work {
    logs: BTreeSet<u64>,
    tables: BTreeSet<u64>,
    merged: usize,
}

// === impl Work ===

impl Work {
    /// Looks at the files of `store`, which may be missing.
    pub fn look(&mut self, store: &Path) {
        self.logs.extend(numbers(&store.join("engine"), Some(OsStr::new("jnl"))));
        let present = numbers(&store.join("engine/keyspaces/1/tables"), None);
        self.merged += self.tables.difference(&present).count();
        // Numbers are not used again; those that are gone need not be remembered.
        self.tables = present;
    }

    /// How many times the log was rotated: the engine numbers its logs.
    pub fn rotations(&self) -> usize {
        self.logs
            .last()
            .zip(self.logs.first())
            .map_or(0, |(last, first)| usize::try_from(last - first).unwrap_or(usize::MAX))
    }

    /// How many tables were written, at least: the engine numbers them from zero, those that it merged
    /// and those that it made by merging included.
    pub fn tables(&self) -> usize {
        self.tables.last().map_or(0, |last| usize::try_from(last + 1).unwrap_or(usize::MAX))
    }

    /// How many tables were seen that are gone by now. Only merging removes tables.
    pub fn merged(&self) -> usize {
        self.merged
    }
}

fn numbers(directory: &Path, extension: Option<&OsStr>) -> BTreeSet<u64> {
    let Ok(entries) = std::fs::read_dir(directory) else { return BTreeSet::new() };
    let number = |path: &Path| path.file_stem()?.to_str()?.parse().ok();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.extension() == extension).filter_map(|path| number(&path)).collect()
}
