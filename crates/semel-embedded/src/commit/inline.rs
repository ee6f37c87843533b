//! The protocol for writes without a sync: the caller that runs first writes the batch it joined.

use super::queue::CommitQueue;
use super::state::OpenBatch;
use super::write::{PanicGuard, write};
use crate::database::{CommitError, WriteBatch};
use crate::tuning;

/// Wakes the committer if the caller leaves before its batch has a writer.
struct HandOver<'a> {
    queue: &'a CommitQueue,
    has_writer: bool,
}

/// Writes the batch `number`, unless another caller has. Not at once: tasks of the same thread that
/// are ready join first, and one write serves them all.
pub(super) async fn write_in_turn(queue: &CommitQueue, number: u64) {
    let mut hand_over = HandOver { queue, has_writer: false };
    tokio::task::yield_now().await;
    hand_over.has_writer = write_open(queue, number);
}

/// Writes the batch `number`, if it is still open. `false` if the committer must do it.
fn write_open(queue: &CommitQueue, number: u64) -> bool {
    let database = queue.storage().database();
    let Some(database) = database.as_ref() else { return false };
    let mut state = queue.state();
    let is_open = state.open.as_ref().is_some_and(|batch| batch.number == number);
    // The thread that writes now looks at the next open batch afterwards.
    if !is_open || state.is_writing {
        return true;
    }
    let Some(batch) = database.has_room().then(|| state.take()).flatten() else {
        return false;
    };
    drop(state);
    write_some(queue, batch, |writes| database.commit_now(writes), || database.has_room());
    true
}

/// Writes this batch, and a few of those that fill meanwhile, for as long as the database has room.
/// The rest is left to the committer: it may wait, and a caller, whose thread has other tasks, may not.
pub(super) fn write_some(
    queue: &CommitQueue,
    mut batch: OpenBatch,
    commit: impl Fn(WriteBatch) -> Result<(), CommitError>,
    has_room: impl Fn() -> bool,
) {
    let _guard = PanicGuard(queue);
    for written in 1.. {
        write(queue, batch, &commit);
        let mut state = queue.state();
        state.end_write();
        if state.open.is_none() {
            return;
        }
        let goes_on = written < tuning::INLINE_BATCHES_MAX && has_room();
        match if goes_on { state.take() } else { None } {
            Some(next) => batch = next,
            None => break,
        }
    }
    queue.work.notify_one();
}

impl Drop for HandOver<'_> {
    fn drop(&mut self) {
        if !self.has_writer {
            self.queue.work.notify_one();
        }
    }
}
