//! A batch becomes durable, and then its operations are completed: never the other way round (I5, I6).

use std::sync::Arc;

use semel_core::Timestamp;

use super::queue::CommitQueue;
use super::result::CommitResult;
use super::state::{OpenBatch, Phase};
use crate::database::{CommitError, WriteBatch};

/// Completes all operations if its thread panics: they must not wait for a committer that is gone.
pub(super) struct PanicGuard<'a>(pub(super) &'a CommitQueue);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.mark_dead();
        }
    }
}

pub(super) fn write(
    queue: &CommitQueue,
    batch: OpenBatch,
    commit: impl FnOnce(WriteBatch) -> Result<(), CommitError>,
) {
    let OpenBatch { number, began, writes, operations, notifier } = batch;
    // One that only read has waited for the batches before it, and needs nothing more.
    match if writes.is_empty() { Ok(()) } else { commit(writes) } {
        Ok(()) => {
            queue.make_visible(number);
            notifier.complete(CommitResult::Durable);
        }
        Err(error) => {
            let what: Arc<str> = error.explain(queue.storage().path()).into();
            queue.failed.line(|left_out| {
                tracing::error!(%what, left_out, "a batch of writes failed");
            });
            let next = fail(queue, &error, began);
            let refused = if error.is_unexplained() {
                CommitResult::NotAsked(Arc::clone(&what))
            } else {
                CommitResult::Refused(Arc::clone(&what))
            };
            notifier.complete(match error {
                CommitError::Failed(_) => CommitResult::Unknown(what),
                CommitError::Behind | CommitError::Stopped(_) => refused.clone(),
            });
            if let Some(OpenBatch { operations, notifier, .. }) = next {
                notifier.complete(refused);
                queue.permits.add_permits(operations);
            }
        }
    }
    queue.permits.add_permits(operations);
}

/// Forgets the batch that failed. The open batch was decided on top of it, and is returned to be
/// refused. `began` is when the first operation of the failed batch was decided: renewals of leases
/// that were live then may be lost with it.
pub(super) fn fail(
    queue: &CommitQueue,
    error: &CommitError,
    began: Timestamp,
) -> Option<OpenBatch> {
    let mut state = queue.state();
    // No batch after this one is left, so the database has all there is; if the failed one was
    // written after all, that is seen only once the database was reopened.
    state.recent.reset(queue.visible());
    let storage = queue.storage();
    storage.outage.begin(began, storage.now(), error.is_fatal());
    if error.is_fatal() && state.phase == Phase::Open {
        state.phase = Phase::Failed;
    }
    state.open.take()
}
