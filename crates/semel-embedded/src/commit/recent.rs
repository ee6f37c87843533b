//! Recent writes: those that the database does not have yet, and some more, so that it need not be
//! read again.

use std::collections::VecDeque;

use semel_core::{Record, RecordId, State};
use semel_store::RecordMap;

use crate::tuning;

/// A record as it was read from the database, before its operation joined the queue.
///
/// It is still current when the operation is decided, unless a batch after `as_of` wrote the record;
/// and what such batches wrote is in [`RecentWrites`].
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// The number of the latest batch that was visible for sure when the record was read.
    pub(crate) as_of: u64,
    pub(crate) record: Option<Record>,
}

/// The records written by the latest batches: all that are not yet visible in the database, and beyond
/// those at most [`tuning::RECENT_MAX`] records and [`tuning::RECENT_BYTES_MAX`] of replies.
#[derive(Debug, Default)]
pub(super) struct RecentWrites {
    written: RecordMap<Written>,
    /// Oldest first; an id written twice stands here twice.
    order: VecDeque<(u64, RecordId)>,
    /// Writes of batches up to this one may have been evicted.
    evicted: u64,
    /// The replies of all records in `written`.
    bytes: usize,
}

#[derive(Debug)]
struct Written {
    batch: u64,
    /// `None` if it was deleted.
    record: Option<Record>,
}

/// What is known about a record without reading the database.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lookup {
    /// This is its latest state, or it does not exist.
    Current(Option<Record>),
    /// The database must be read.
    ReadDatabase,
}

// === impl RecentWrites ===

impl RecentWrites {
    /// The latest state of `id`, given what was read before.
    pub(super) fn look_up(&self, id: RecordId, snapshot: Option<Snapshot>) -> Lookup {
        match (self.written.get(&id), snapshot) {
            (Some(written), _) => Lookup::Current(written.record.clone()),
            (None, Some(snapshot)) if snapshot.as_of >= self.evicted => {
                Lookup::Current(snapshot.record)
            }
            (None, _) => Lookup::ReadDatabase,
        }
    }

    /// How many writes are kept.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether `id` was not written after batch `as_of`. `false` also if its writes may have been
    /// evicted.
    pub(super) fn unchanged_since(&self, id: RecordId, as_of: u64) -> bool {
        match self.written.get(&id) {
            Some(written) => written.batch <= as_of,
            None => as_of >= self.evicted,
        }
    }

    /// Adds a record that `batch` wrote.
    pub(super) fn wrote(&mut self, batch: u64, id: RecordId, record: Record) {
        self.add(batch, id, Some(record));
    }

    /// Adds a record that `batch` deleted.
    pub(super) fn deleted(&mut self, batch: u64, id: RecordId) {
        self.add(batch, id, None);
    }

    /// Evicts everything: from now on the database has all that was written.
    pub(super) fn reset(&mut self, batch: u64) {
        *self = Self { evicted: batch, ..Self::default() };
    }

    /// Evicts what is over the limits, but nothing of a batch after `visible`, which the database does
    /// not have yet.
    pub(super) fn evict(&mut self, visible: u64) {
        while self.order.len() > tuning::RECENT_MAX || self.bytes > tuning::RECENT_BYTES_MAX {
            match self.order.front() {
                Some((batch, _)) if *batch <= visible => self.evict_oldest(),
                _ => return,
            }
        }
    }

    fn add(&mut self, batch: u64, id: RecordId, record: Option<Record>) {
        self.bytes += reply_len(record.as_ref());
        if let Some(before) = self.written.insert(id, Written { batch, record }) {
            self.bytes -= reply_len(before.record.as_ref());
        }
        self.order.push_back((batch, id));
    }

    fn evict_oldest(&mut self) {
        let Some((batch, id)) = self.order.pop_front() else {
            return;
        };
        // It may have been written again since, and then its later entry still stands for it.
        if self.written.get(&id).is_some_and(|written| written.batch == batch) {
            if let Some(before) = self.written.remove(&id) {
                self.bytes -= reply_len(before.record.as_ref());
            }
            self.evicted = self.evicted.max(batch);
        }
    }
}

fn reply_len(record: Option<&Record>) -> usize {
    match record.map(|record| &record.state) {
        Some(State::Settled(settlement)) => {
            settlement.reply().map_or(0, |reply| reply.bytes().len())
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
