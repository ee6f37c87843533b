//! The one thread that writes: it gathers operations into groups, decides them one after the other,
//! and makes each group durable with one sync while the next group gathers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use semel_core::{Record, RecordId, Timestamp};
use semel_store::StoreError;
use tokio::sync::mpsc;

use crate::database::{CommitError, Group};
use crate::operation::{Answer, Operation, Verb};
use crate::recent::{Known, Recent};
use crate::room::Room;
use crate::{OpenError, tuning};

/// Owns all writing to the engine.
pub(crate) struct Committer {
    room: Arc<Room>,
    queue: mpsc::Receiver<Operation>,
    recent: Recent,
    /// The number of the group at hand.
    group: u64,
    /// Has the engine failed, so that it must be opened anew before the next write?
    failed: bool,
}

/// A group that has been decided and waits to become durable.
struct Staged {
    group: Group,
    answers: Vec<Answer>,
}

// === impl Committer ===

impl Committer {
    pub(crate) fn new(room: Arc<Room>, queue: mpsc::Receiver<Operation>) -> Self {
        Self { room, queue, recent: Recent::default(), group: 0, failed: false }
    }

    /// Works until every sender is gone.
    pub(crate) fn run(mut self) {
        let mut operations = Vec::with_capacity(tuning::GROUP_MAX);
        while self.queue.blocking_recv_many(&mut operations, tuning::GROUP_MAX) > 0 {
            self.serve(&mut operations);
        }
    }

    fn serve(&mut self, operations: &mut Vec<Operation>) {
        if let Err(error) = self.resume_if_failed() {
            // The same for all, and nothing was written for any.
            for operation in operations.drain(..) {
                operation.refuse(StoreError::unavailable(error.to_string()));
            }
            return;
        }
        self.group += 1;
        if let Some(staged) = self.stage(operations) {
            self.finish(staged);
        }
    }

    /// Decides every operation, each seeing what those before it in the group have written.
    fn stage(&mut self, operations: &mut Vec<Operation>) -> Option<Staged> {
        let room = Arc::clone(&self.room);
        let database = room.database();
        let database = database.as_ref()?;
        let now = room.now();
        let mut staged = Staged {
            group: database.group(operations.len()),
            answers: Vec::with_capacity(operations.len()),
        };
        for operation in operations.drain(..) {
            match operation {
                Operation::Write { id, seen, verb } => {
                    let current = match self.recent.know(id, seen) {
                        Known::Is(record) => Ok(record),
                        Known::AskEngine => database.get(id),
                    };
                    match current {
                        Ok(current) => self.write(&mut staged, id, current.as_ref(), verb, now),
                        Err(error) => verb.refuse(error),
                    }
                }
                Operation::Forget { ids, as_of, reply } => {
                    let forgotten = self.forget(&mut staged, ids, as_of);
                    staged.answers.push(Answer::Forget(reply, forgotten));
                }
                Operation::Ping { reply } => staged.answers.push(Answer::Ping(reply)),
            }
        }
        Some(staged)
    }

    fn write(
        &mut self,
        staged: &mut Staged,
        id: RecordId,
        current: Option<&Record>,
        verb: Verb,
        now: Timestamp,
    ) {
        let (answer, write) = verb.decide(current, now);
        if let Some(record) = write {
            staged.group.write(id, &record);
            self.recent.wrote(self.group, id, record);
        }
        staged.answers.push(answer);
    }

    /// Deletes what expired, but for records that began a new life since they were read.
    fn forget(&mut self, staged: &mut Staged, ids: Vec<RecordId>, as_of: u64) -> usize {
        let mut forgotten = 0;
        for id in ids {
            if self.recent.untouched_since(id, as_of) {
                staged.group.delete(id);
                self.recent.deleted(self.group, id);
                forgotten += 1;
            }
        }
        forgotten
    }

    /// Makes the group durable, then gives its answers: never the other way round (I5, I6).
    fn finish(&mut self, staged: Staged) {
        let Staged { group, answers } = staged;
        match self.commit(group) {
            Ok(()) => {
                self.room.committed.store(self.group, Ordering::Release);
                answers.into_iter().for_each(Answer::give);
            }
            Err(error) => self.fail(&error, answers),
        }
    }

    fn commit(&self, group: Group) -> Result<(), CommitError> {
        match &*self.room.database() {
            _ if group.is_empty() => Ok(()),
            // Also when it only deletes what has expired: a group without a sync before one with
            // could leave a hole in the log after a power cut, and a hole is refused as damage.
            Some(database) => database.commit(group),
            None => Err(CommitError::Behind),
        }
    }

    fn fail(&mut self, error: &CommitError, answers: Vec<Answer>) {
        let what = error.explain(self.room.path());
        tracing::error!(%what, "a group of writes failed");
        self.recent.clear(self.group);
        self.failed |= error.is_fatal();
        for answer in answers {
            answer.refuse(if error.maybe_written() {
                StoreError::TimedOut { what: what.clone(), source: None }
            } else {
                StoreError::unavailable(what.clone())
            });
        }
    }

    /// Opens the engine anew if it has failed: it refuses all further writes, but goes on reading
    /// until there is a chance of better luck.
    fn resume_if_failed(&mut self) -> Result<(), OpenError> {
        if self.failed {
            self.room.resume()?;
            self.recent.clear(self.group);
            self.failed = false;
            tracing::info!(path = %self.room.path().display(), "the store takes writes again");
        }
        Ok(())
    }
}
