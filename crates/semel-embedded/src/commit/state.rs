//! What the queue's lock protects: the open batch, and what was written lately.

use semel_core::{Record, RecordId, Timestamp};
use semel_store::StoreError;

use super::recent::RecentWrites;
use super::reopening::ReopenQueue;
use super::result::{CommitFuture, CommitNotifier, CommitNotifiers};
use crate::database::{Database, WriteBatch};
use crate::storage::reopening;
use crate::tuning;

#[derive(Default)]
pub(super) struct State {
    pub(super) recent: RecentWrites,
    /// The batch that operations join.
    pub(super) open: Option<OpenBatch>,
    /// The number of the open batch, or of the one before if there is none.
    pub(super) number: u64,
    notifiers: CommitNotifiers,
    /// Whether a batch is being written. Only one is at a time, and they follow each other in order.
    pub(super) is_writing: bool,
    /// How many operations the last batch had: the next will have about as many.
    last_operations: usize,
    pub(super) phase: Phase,
    /// Operations that wait for the database to be reopened.
    pub(super) reopening: ReopenQueue,
}

/// Whether the database takes writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Open,
    /// It has failed, and must be reopened before the next write.
    Failed,
    /// The store is being dropped.
    Closed,
    /// The committer has panicked, and nothing can be written any more.
    Dead,
}

/// A batch of decided operations that waits to become durable.
pub(super) struct OpenBatch {
    pub(super) number: u64,
    /// When its first operation was decided.
    pub(super) began: Timestamp,
    pub(super) writes: WriteBatch,
    pub(super) operations: usize,
    pub(super) notifier: CommitNotifier,
}

// === impl State ===

impl State {
    pub(super) fn check_open(&self) -> Result<(), StoreError> {
        match self.phase {
            Phase::Open => Ok(()),
            Phase::Failed => Err(reopening()),
            Phase::Closed => Err(closed()),
            Phase::Dead => Err(StoreError::unavailable(DEAD)),
        }
    }

    /// Whether there is no open batch, and none being written.
    pub(super) const fn is_idle(&self) -> bool {
        self.open.is_none() && !self.is_writing
    }

    /// Puts a decided operation into the open batch. One without a write joins as well: it may rest on
    /// what an earlier one has written and what is not durable yet.
    pub(super) fn join(
        &mut self,
        database: &Database,
        now: Timestamp,
        id: RecordId,
        write: Option<Record>,
    ) -> CommitFuture {
        let batch = self.open_batch(database, now);
        batch.operations += 1;
        let result = batch.notifier.subscribe();
        if let Some(record) = write {
            batch.writes.write(id, &record);
            self.recent.wrote(self.number, id, record);
        }
        result
    }

    /// The open batch; a new one if the last was taken.
    pub(super) fn open_batch(&mut self, database: &Database, now: Timestamp) -> &mut OpenBatch {
        if self.open.is_none() {
            self.number += 1;
        }
        self.open.get_or_insert_with(|| OpenBatch {
            number: self.number,
            began: now,
            writes: database.batch(self.last_operations.max(tuning::BATCH_CAPACITY_MIN)),
            operations: 0,
            notifier: self.notifiers.next(),
        })
    }

    /// Closes the open batch, to be written now, unless another is being written.
    pub(super) fn take(&mut self) -> Option<OpenBatch> {
        if self.is_writing {
            return None;
        }
        let batch = self.open.take()?;
        self.is_writing = true;
        self.last_operations = batch.operations;
        Some(batch)
    }

    /// A batch was written, or has failed.
    pub(super) fn end_write(&mut self) {
        self.is_writing = false;
        self.reopening.end_turn();
    }
}

pub(super) const DEAD: &str =
    "the committer of the embedded store has stopped; restart the process";

pub(super) fn closed() -> StoreError {
    StoreError::unavailable("the embedded store has been closed")
}
