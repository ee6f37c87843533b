//! The queue of operations: each caller decides its own operation here, one after the other, and
//! joins the open batch.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use semel_core::{Record, RecordId, Timestamp};
use semel_log::Throttle;
use semel_store::StoreError;
use tokio::sync::Semaphore;
use tracing::Level;

use super::recent::{Lookup, Snapshot};
use super::reopening::{HolderTurn, Priority};
use super::result::{CommitFuture, CommitResult};
use super::state::{DEAD, Phase, State, closed};
use super::{committer, inline};
use crate::database::Database;
use crate::storage::{Storage, reopening};
use crate::{Durability, tuning};

/// The one place where records change. Deciding takes about a microsecond, under a lock; becoming
/// durable takes a sync of the device, which a whole batch shares.
pub(crate) struct CommitQueue {
    storage: Arc<Storage>,
    state: Mutex<State>,
    /// Wakes the committer.
    pub(super) work: Condvar,
    /// One for each operation that is not completed (I10).
    pub(super) permits: Semaphore,
    /// The number of the latest batch that readers of the database see.
    visible: AtomicU64,
    /// Whether callers write their batches themselves.
    is_inline: bool,
    /// A disk may fail many batches a second, and be reopened after each.
    pub(super) failed: Throttle,
    pub(super) reopened: Throttle,
}

/// An answer that must not be given before its batch is durable (I5, I6).
pub(crate) struct Pending<A> {
    answer: A,
    result: CommitFuture,
    /// The number of its batch.
    batch: u64,
}

// === impl CommitQueue ===

impl CommitQueue {
    pub(crate) fn new(storage: Arc<Storage>) -> Self {
        Self {
            is_inline: storage.durability() == Durability::Process,
            storage,
            state: Mutex::default(),
            work: Condvar::new(),
            permits: Semaphore::new(tuning::OPERATIONS_MAX),
            visible: AtomicU64::new(0),
            failed: Throttle::of("a batch of writes failed", Level::ERROR),
            reopened: Throttle::of("the store takes writes again", Level::INFO),
        }
    }

    /// The committer's thread: writes batches until the queue is [closed](Self::close).
    pub(crate) fn run_committer(&self) {
        committer::run(self);
    }

    /// Takes no more operations, and lets the committer end after the last batch.
    pub(crate) fn close(&self) {
        self.state().phase = Phase::Closed;
        self.work.notify_all();
    }

    pub(crate) fn storage(&self) -> &Storage {
        &self.storage
    }

    /// The number of the latest batch that readers of the database see for sure.
    pub(crate) fn visible(&self) -> u64 {
        self.visible.load(Ordering::Acquire)
    }

    /// Reads a record, with the number of the batch up to which it is known to be current.
    pub(crate) fn read(&self, database: &Database, id: RecordId) -> Result<Snapshot, StoreError> {
        // Before the read: a batch that becomes visible after this number was taken can only make
        // the record newer than `as_of` says.
        let as_of = self.visible();
        Ok(Snapshot { as_of, record: database.get(id)? })
    }

    /// Decides an operation on `id` with `decide`, which gives the answer and what to write, and
    /// answers once that is durable.
    pub(crate) async fn submit<A>(
        &self,
        priority: Priority,
        id: RecordId,
        snapshot: Option<Snapshot>,
        decide: impl FnOnce(Option<&Record>, Timestamp) -> (A, Option<Record>),
    ) -> Result<A, StoreError> {
        let turn = self.reopen_if_failed(priority).await?;
        let permit = self.permits.acquire().await.map_err(|_| closed())?;
        let pending = self.decide(id, snapshot, decide)?;
        drop(turn);
        // The permit is given back when the batch is complete, whether or not the caller still waits.
        permit.forget();
        if self.is_inline {
            inline::write_in_turn(self, pending.batch).await;
        }
        pending.answer().await
    }

    /// Deletes expired records, except those that were written after batch `as_of`.
    pub(crate) fn delete(
        &self,
        ids: &[RecordId],
        as_of: u64,
    ) -> Result<Pending<usize>, StoreError> {
        let database = self.storage.database();
        let database = database.as_ref().ok_or_else(reopening)?;
        let mut state = self.state();
        state.check_open()?;
        if state.open.as_ref().is_some_and(|batch| batch.writes.len() >= tuning::OPERATIONS_MAX) {
            return Err(StoreError::unavailable("the disk is too slow for a sweep now"));
        }
        let (was_idle, now) = (state.is_idle(), self.storage.now());
        let mut deleted = 0;
        for &id in ids {
            if state.recent.unchanged_since(id, as_of) {
                state.open_batch(database, now).writes.delete(id);
                let batch = state.number;
                state.recent.deleted(batch, id);
                deleted += 1;
            }
        }
        let result = state.open_batch(database, now).notifier.subscribe();
        let batch = state.number;
        state.recent.evict(self.visible());
        drop(state);
        // Not by the sweeper itself: its batches are large.
        self.wake_committer(was_idle);
        Ok(Pending { answer: deleted, result, batch })
    }

    /// Checks that the store can write, and reopens the database if it has failed.
    pub(crate) async fn check(&self) -> Result<(), StoreError> {
        let has_stopped = {
            let database = self.storage.database();
            database.as_ref().is_some_and(|database| database.check_alive().is_err())
        };
        if has_stopped {
            let mut state = self.state();
            if state.phase == Phase::Open {
                state.phase = Phase::Failed;
                let now = self.storage.now();
                self.storage.outage.begin(now, now, true);
            }
        }
        self.reopen_if_failed(Priority::Claim).await.map(drop)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // A thread that panics in the middle of a change leaves its batch to the committer, which
        // writes all of it or nothing.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Readers of the database see this batch, and all before it.
    pub(super) fn make_visible(&self, batch: u64) {
        self.visible.store(batch, Ordering::Release);
    }

    /// The committer is gone: fails all operations that wait, and all to come.
    pub(super) fn mark_dead(&self) {
        let mut state = self.state();
        state.phase = Phase::Dead;
        state.reopening.clear();
        // Dropping the batch leaves its operations without a result, which counts as unknown.
        state.open = None;
        self.permits.close();
    }

    /// Decides an operation on the latest state of its record, and puts it into the open batch.
    fn decide<A>(
        &self,
        id: RecordId,
        mut snapshot: Option<Snapshot>,
        decide: impl FnOnce(Option<&Record>, Timestamp) -> (A, Option<Record>),
    ) -> Result<Pending<A>, StoreError> {
        let database = self.storage.database();
        let database = database.as_ref().ok_or_else(reopening)?;
        for _ in 0..tuning::READS_MAX {
            let mut state = self.state();
            state.check_open()?;
            let Lookup::Current(mut current) = state.recent.look_up(id, snapshot.take()) else {
                // Not under the lock: it may take a read from the disk.
                drop(state);
                snapshot = Some(self.read(database, id)?);
                continue;
            };
            let was_idle = state.is_idle();
            let now = self.storage.now();
            self.storage.adjust(current.as_mut(), now);
            let (answer, write) = decide(current.as_ref(), now);
            let result = state.join(database, now, id, write);
            state.recent.evict(self.visible());
            let pending = Pending { answer, result, batch: state.number };
            drop(state);
            if !self.is_inline {
                self.wake_committer(was_idle);
            }
            return Ok(pending);
        }
        Err(StoreError::unavailable("the embedded store is too busy to look at the record"))
    }

    /// Wakes the committer for a batch that was opened while the queue was idle. Otherwise it was
    /// woken already, or looks again after its write; each wake-up costs a system call.
    fn wake_committer(&self, was_idle: bool) {
        if was_idle {
            self.work.notify_one();
        }
    }

    /// Waits for the database to be reopened, if it has failed. A holder's operation is to be decided
    /// before what this returns is dropped.
    ///
    /// The number of operations that wait here, or for a permit, is bounded by the callers (I10): an operation
    /// is one entry for as long as its future lives, so the limits on executions and connections are limits on
    /// these. A bound of its own would refuse holders, whose outcome must not be lost, because of claims.
    async fn reopen_if_failed(
        &self,
        priority: Priority,
    ) -> Result<Option<Arc<HolderTurn>>, StoreError> {
        let reopened = {
            let mut state = self.state();
            if state.phase != Phase::Failed {
                return state.check_open().map(|()| None);
            }
            state.reopening.join(priority)
        };
        self.work.notify_one();
        match reopened.await {
            Ok(Ok(turn)) => Ok(turn),
            Ok(Err(error)) => Err(error.to_store_error()),
            Err(_) => Err(closed()),
        }
    }
}

// === impl Pending ===

impl<A> Pending<A> {
    /// The answer, once its batch is durable.
    pub(crate) async fn answer(self) -> Result<A, StoreError> {
        match self.result.await {
            CommitResult::Durable => Ok(self.answer),
            CommitResult::Refused(what) => Err(StoreError::unavailable(&*what)),
            CommitResult::NotAsked(what) => Err(StoreError::not_asked(&*what)),
            CommitResult::Unknown(what) => {
                Err(StoreError::TimedOut { what: what.to_string(), source: None })
            }
            // Its writer panicked, and what it wrote is not known.
            CommitResult::Abandoned => {
                Err(StoreError::TimedOut { what: DEAD.into(), source: None })
            }
        }
    }
}
