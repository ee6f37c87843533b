//! The engine's work on files other than its log, as far as their names show it.
//!
//! A crash while a table is written, a log rotated or tables merged is another test than one while the
//! log is written. With the engine's usual sizes short rounds never get that far, so the crash tests
//! use small memtables ([`MEMTABLE_BYTES`]) and some large replies, and count here what came of it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::ops::AddAssign;
use std::path::Path;

/// The size of the engine's memtables in crash tests: a round fills several.
pub const MEMTABLE_BYTES: u64 = 1 << 20;

/// The files that a store has at one moment.
#[derive(Clone, Debug, Default)]
pub struct Files {
    logs: BTreeSet<u64>,
    tables: BTreeSet<u64>,
}

/// What was done between two looks at the files, at least.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// How many tables were written, by merging or otherwise: the engine numbers them from zero.
    pub tables: usize,
    /// How many tables are gone. Only merging removes tables.
    pub merged: usize,
    /// How many times the log was rotated: the engine numbers its logs.
    pub rotations: usize,
}

/// Looks again and again, and adds up what was done in between.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    files: Files,
    work: Work,
}

// === impl Watch ===

impl Watch {
    /// A watch that begins with the files of `store` as they are.
    pub fn of(store: &Path) -> Self {
        Self { files: Files::look(store), work: Work::default() }
    }

    /// Looks again.
    pub fn look(&mut self, store: &Path) -> &Files {
        let now = Files::look(store);
        self.work += self.files.work_until(&now);
        self.files = now;
        &self.files
    }

    /// What was seen at the last look.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// What was done since the beginning.
    pub fn work(&self) -> Work {
        self.work
    }
}

// === impl Files ===

impl Files {
    /// The files of `store`, which may be missing.
    pub fn look(store: &Path) -> Self {
        Self {
            logs: numbers(&store.join("engine"), Some(OsStr::new("jnl"))),
            tables: numbers(&store.join("engine/keyspaces/1/tables"), None),
        }
    }

    /// The number of the newest table.
    pub fn newest_table(&self) -> Option<u64> {
        self.tables.last().copied()
    }

    /// The number of the newest log.
    pub fn newest_log(&self) -> Option<u64> {
        self.logs.last().copied()
    }

    /// Whether there is a table of this number.
    pub fn has_table(&self, number: u64) -> bool {
        self.tables.contains(&number)
    }

    /// What became of these files by the time of a later look.
    fn work_until(&self, later: &Self) -> Work {
        let next = |newest: Option<u64>| newest.map_or(0, |newest| newest + 1);
        let more = |newest: fn(&Self) -> Option<u64>| {
            let more = next(newest(later)).saturating_sub(next(newest(self)));
            usize::try_from(more).unwrap_or(usize::MAX)
        };
        Work {
            tables: more(Self::newest_table),
            merged: self.tables.difference(&later.tables).count(),
            // The first log is there from the start.
            rotations: if self.logs.is_empty() { 0 } else { more(Self::newest_log) },
        }
    }
}

// === impl Work ===

impl AddAssign for Work {
    fn add_assign(&mut self, more: Self) {
        self.tables += more.tables;
        self.merged += more.merged;
        self.rotations += more.rotations;
    }
}

fn numbers(directory: &Path, extension: Option<&OsStr>) -> BTreeSet<u64> {
    let Ok(entries) = std::fs::read_dir(directory) else { return BTreeSet::new() };
    let number = |path: &Path| path.file_stem()?.to_str()?.parse().ok();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.extension() == extension).filter_map(|path| number(&path)).collect()
}
