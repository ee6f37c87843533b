//! What was written lately: what the engine does not have yet, and some more, so that it need not
//! be asked again.

use std::collections::VecDeque;

use semel_core::{Record, RecordId, State};
use semel_store::RecordMap;

use crate::tuning;

/// What a caller saw in the engine before it came to the desk.
///
/// It is still the truth when the group is decided, unless a group after `as_of` wrote the record;
/// and what such groups wrote is in [`Recent`].
#[derive(Debug)]
pub(crate) struct Seen {
    /// The number of the latest group that was visible for sure when the reader looked.
    pub(crate) as_of: u64,
    /// What it saw.
    pub(crate) record: Option<Record>,
}

/// The records written by the latest groups: all that are not yet visible in the engine, and beyond
/// those at most [`tuning::RECENT_MAX`] records and [`tuning::RECENT_BYTES_MAX`] of replies.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    written: RecordMap<Written>,
    /// Oldest first; an id written twice stands here twice.
    order: VecDeque<(u64, RecordId)>,
    /// Of groups up to this one, something may have been forgotten.
    forgotten: u64,
    /// The replies of all records in `written`.
    bytes: usize,
}

#[derive(Debug)]
struct Written {
    group: u64,
    /// `None` if it was deleted.
    record: Option<Record>,
}

/// What is known about a record without asking the engine.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// It is this, or it is not there.
    Is(Option<Record>),
    /// The engine must be asked.
    AskEngine,
}

// === impl Recent ===

impl Recent {
    /// What `id` is now, given what its reader has seen.
    pub(crate) fn know(&self, id: RecordId, seen: Option<Seen>) -> Known {
        match (self.written.get(&id), seen) {
            (Some(written), _) => Known::Is(written.record.clone()),
            (None, Some(seen)) if seen.as_of >= self.forgotten => Known::Is(seen.record),
            (None, _) => Known::AskEngine,
        }
    }

    /// How many writes are remembered.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Has nobody written `id` since group `as_of` was visible? `false` also if that was so long
    /// ago that nobody remembers.
    pub(crate) fn untouched_since(&self, id: RecordId, as_of: u64) -> bool {
        match self.written.get(&id) {
            Some(written) => written.group <= as_of,
            None => as_of >= self.forgotten,
        }
    }

    /// Takes note of a record that `group` wrote.
    pub(crate) fn wrote(&mut self, group: u64, id: RecordId, record: Record) {
        self.note(group, id, Some(record));
    }

    /// Takes note of a record that `group` deleted.
    pub(crate) fn deleted(&mut self, group: u64, id: RecordId) {
        self.note(group, id, None);
    }

    /// Forgets everything: the engine was opened anew and is the only truth.
    pub(crate) fn clear(&mut self, group: u64) {
        *self = Self { forgotten: group, ..Self::default() };
    }

    /// Forgets what is too much, but nothing of a group after `committed`: the engine does not have
    /// it yet, so nobody else would know.
    pub(crate) fn forget_old(&mut self, committed: u64) {
        while self.order.len() > tuning::RECENT_MAX || self.bytes > tuning::RECENT_BYTES_MAX {
            match self.order.front() {
                Some((group, _)) if *group <= committed => self.forget_oldest(),
                _ => return,
            }
        }
    }

    fn note(&mut self, group: u64, id: RecordId, record: Option<Record>) {
        self.bytes += reply_len(record.as_ref());
        if let Some(before) = self.written.insert(id, Written { group, record }) {
            self.bytes -= reply_len(before.record.as_ref());
        }
        self.order.push_back((group, id));
    }

    fn forget_oldest(&mut self) {
        let Some((group, id)) = self.order.pop_front() else {
            return;
        };
        // It may have been written again since, and then its later entry still stands for it.
        if self.written.get(&id).is_some_and(|written| written.group == group) {
            if let Some(before) = self.written.remove(&id) {
                self.bytes -= reply_len(before.record.as_ref());
            }
            self.forgotten = self.forgotten.max(group);
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
