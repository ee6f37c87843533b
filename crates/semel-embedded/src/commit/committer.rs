//! The thread that syncs: it makes one batch after the other durable, each with one sync, while the
//! next one fills. It also reopens a database that failed.

use std::sync::{Arc, PoisonError};

use super::queue::CommitQueue;
use super::state::{OpenBatch, Phase};
use super::write::{PanicGuard, write};
use crate::database::{CommitError, WriteBatch};

enum Task {
    Write(OpenBatch),
    Reopen,
    Stop,
}

/// Works until the store is dropped and the last batch is written.
pub(super) fn run(queue: &CommitQueue) {
    let _guard = PanicGuard(queue);
    loop {
        match next(queue) {
            Task::Write(batch) => {
                write(queue, batch, |writes| commit(queue, writes));
                queue.state().end_write();
            }
            Task::Reopen => reopen(queue),
            Task::Stop => return,
        }
    }
}

/// Waits for something to do.
fn next(queue: &CommitQueue) -> Task {
    let mut state = queue.state();
    loop {
        if let Some(batch) = state.take() {
            return Task::Write(batch);
        }
        match state.phase {
            Phase::Closed | Phase::Dead => return Task::Stop,
            Phase::Failed if !state.reopening.is_empty() => return Task::Reopen,
            Phase::Failed | Phase::Open => {}
        }
        state = queue.work.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

fn commit(queue: &CommitQueue, writes: WriteBatch) -> Result<(), CommitError> {
    match &*queue.storage().database() {
        // Also when it only deletes what has expired: a batch without a sync before one with could
        // leave a hole in the log after a power cut, and a hole is refused as damage.
        Some(database) => database.commit(writes),
        None => Err(CommitError::Behind),
    }
}

/// Reopens the database. Until then it refuses all writes, but goes on reading.
fn reopen(queue: &CommitQueue) {
    let storage = queue.storage();
    let reopened = storage.reopen();
    let mut state = queue.state();
    match reopened {
        Ok(()) => {
            // A snapshot from before may miss the batch that failed: it must be read again.
            let number = state.number;
            queue.make_visible(number);
            state.recent.reset(number);
            storage.outage.end(storage.now());
            if state.phase == Phase::Failed {
                state.phase = Phase::Open;
            }
            queue.reopened.line(|left_out| {
                let path = storage.path().display();
                tracing::info!(%path, left_out, "the store takes writes again");
            });
            state.reopening.admit();
        }
        Err(error) => state.reopening.refuse(&Arc::new(error)),
    }
}
