//! What was written lately, so that the committer seldom has to ask the engine.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use semel_core::{Record, RecordId, State};

use crate::tuning;

/// What a reader saw in the engine before it joined the queue.
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

/// The records written by the latest groups, at most [`tuning::RECENT_MAX`] of them.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    written: HashMap<RecordId, Written, BuildHasherDefault<IdHasher>>,
    /// Oldest first; an id written twice stands here twice.
    order: VecDeque<(u64, RecordId)>,
    /// Of groups up to this one, something may have been forgotten.
    forgotten: u64,
}

/// Takes the first bytes of an id as its hash: an id is a hash already.
#[derive(Debug, Default)]
struct IdHasher(u64);

#[derive(Debug)]
struct Written {
    group: u64,
    now: Now,
}

/// What is known about a record that was written lately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Now {
    /// It is this.
    Record(Record),
    /// It was deleted.
    Deleted,
    /// It was written but is too large to be remembered: ask the engine.
    Large,
}

/// What the committer knows about a record without asking the engine.
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
        match self.written.get(&id).map(|written| &written.now) {
            Some(Now::Record(record)) => Known::Is(Some(record.clone())),
            Some(Now::Deleted) => Known::Is(None),
            Some(Now::Large) => Known::AskEngine,
            None => match seen {
                Some(seen) if seen.as_of >= self.forgotten => Known::Is(seen.record),
                _ => Known::AskEngine,
            },
        }
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
        let now = if reply_len(&record) > tuning::RECENT_REPLY_MAX {
            Now::Large
        } else {
            Now::Record(record)
        };
        self.note(group, id, now);
    }

    /// Takes note of a record that `group` deleted.
    pub(crate) fn deleted(&mut self, group: u64, id: RecordId) {
        self.note(group, id, Now::Deleted);
    }

    /// Forgets everything: the engine was opened anew and is the only truth.
    pub(crate) fn clear(&mut self, group: u64) {
        *self = Self { forgotten: group, ..Self::default() };
    }

    fn note(&mut self, group: u64, id: RecordId, now: Now) {
        self.written.insert(id, Written { group, now });
        self.order.push_back((group, id));
        while self.order.len() > tuning::RECENT_MAX {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some((group, id)) = self.order.pop_front() else {
            return;
        };
        // It may have been written again since, and then its later entry still stands for it.
        if self.written.get(&id).is_some_and(|written| written.group == group) {
            self.written.remove(&id);
            self.forgotten = self.forgotten.max(group);
        }
    }
}

// === impl IdHasher ===

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk() {
            self.0 = u64::from_le_bytes(*first);
        }
    }

    // Of an array, the length is hashed as well; it says nothing here.
    fn write_usize(&mut self, _len: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

fn reply_len(record: &Record) -> usize {
    match &record.state {
        State::Settled(settlement) => settlement.reply().map_or(0, |reply| reply.bytes().len()),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
