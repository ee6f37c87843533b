//! The records of a memory store, within limits.

use std::time::Duration;

use semel_core::{Record, RecordId, ResultId, State, Timestamp};

use crate::{RecordMap, Swept};

/// The limits of a [`MemoryStore`](crate::MemoryStore).
///
/// Beyond them a claim that would begin an execution is declined. Executions in progress are settled, and settled
/// records are replayed, so the memory may grow further by the replies of the executions in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Records, expired ones included until they are swept.
    pub records_max: usize,
    /// Bytes of their replies.
    pub reply_bytes_max: u64,
}

/// Records within limits.
#[derive(Debug)]
pub(super) struct Entries {
    records: RecordMap<Record>,
    reply_bytes: u64,
    limits: MemoryLimits,
    /// Set by a declined claim, and cleared when a tenth of the capacity is free, so that it is not logged for each record.
    is_full: bool,
    /// When a full store was last swept.
    last_sweep: Option<Timestamp>,
}

/// The interval of sweeps while the store is full: a sweep scans all records.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

// === impl MemoryLimits ===

impl MemoryLimits {
    /// No limits but the memory.
    pub const NONE: Self = Self { records_max: usize::MAX, reply_bytes_max: u64::MAX };
}

// === impl Entries ===

impl Entries {
    pub(super) fn within(limits: MemoryLimits) -> Self {
        let records = RecordMap::default();
        Self { records, reply_bytes: 0, limits, is_full: false, last_sweep: None }
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) const fn is_full(&self) -> bool {
        self.is_full
    }

    pub(super) fn get(&self, id: RecordId) -> Option<&Record> {
        self.records.get(&id)
    }

    pub(super) fn put(&mut self, id: RecordId, record: Record) {
        self.reply_bytes += reply_bytes(&record);
        if let Some(old) = self.records.insert(id, record) {
            self.reply_bytes -= reply_bytes(&old);
        }
    }

    /// Whether an execution may begin on a record. If not, expired records are deleted first.
    pub(super) fn has_room(&mut self, id: RecordId, now: Timestamp) -> bool {
        if self.fits(id) {
            return true;
        }
        if self.last_sweep.is_none_or(|last| last.plus(SWEEP_EVERY) <= now) {
            self.last_sweep = Some(now);
            self.sweep(usize::MAX, now);
        }
        let fits = self.fits(id);
        if !fits && !self.is_full {
            self.is_full = true;
            let (records, reply_bytes) = (self.len(), self.reply_bytes);
            tracing::warn!(
                code = "memory_is_full",
                records,
                reply_bytes,
                "the memory store is full"
            );
        }
        fits
    }

    /// Deletes expired records, at most `limit`.
    pub(super) fn sweep(&mut self, limit: usize, now: Timestamp) -> Swept {
        let expired = self.records.iter().filter(|(_, record)| record.is_expired(now));
        let expired: Vec<RecordId> = expired.map(|(id, _)| *id).collect();
        for id in expired.iter().take(limit) {
            if let Some(record) = self.records.remove(id) {
                self.reply_bytes -= reply_bytes(&record);
            }
        }
        if self.is_full && self.is_below_nine_tenths() {
            self.is_full = false;
            tracing::info!("the memory store has room again");
        }
        Swept { deleted: expired.len().min(limit), more: expired.len() > limit }
    }

    /// Whether a record fits. An existing record takes no further entry, but its reply may take space.
    fn fits(&self, id: RecordId) -> bool {
        let MemoryLimits { records_max, reply_bytes_max } = self.limits;
        self.reply_bytes < reply_bytes_max
            && (self.len() < records_max || self.records.contains_key(&id))
    }

    fn is_below_nine_tenths(&self) -> bool {
        let MemoryLimits { records_max, reply_bytes_max } = self.limits;
        self.len() < records_max - records_max / 10
            && self.reply_bytes < reply_bytes_max - reply_bytes_max / 10
    }
}

fn reply_bytes(record: &Record) -> u64 {
    let State::Settled(settlement) = &record.state else { return 0 };
    settlement.reply().map_or(0, |reply| {
        let result = reply.result().map_or(0, |result: &ResultId| result.as_str().len());
        (reply.bytes().len() + result) as u64
    })
}

#[cfg(test)]
mod tests;
