use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use semel_core::{
    Attempt, Claim, Lease, Policy, Record, RecordId, Release, Settlement, decide, release, renew,
    settle,
};
use semel_store::{
    Clock, FromTransition as _, Health, Released, Renewed, Settled, Store, StoreError, StoreFuture,
    Swept,
};

use crate::commit::{CommitQueue, Priority, Snapshot};
use crate::storage::{Storage, reopening};
use crate::sweeper::Cursor;
use crate::thread::{Worker, spawn};
use crate::{OpenError, Options, mark_writer, sweeper};

/// Keeps records durably in a directory, for one process.
///
/// Cheap to clone; the directory is released when the last clone is dropped. Dropping that one
/// blocks until what was begun is written.
///
/// A future of one of its verbs should be polled to its end or dropped. One that is kept and not
/// polled may hold up others that wait for the same sync on the same thread, until something else
/// is written or a timeout makes them look again.
#[derive(Clone)]
pub struct EmbeddedStore {
    inner: Arc<Inner>,
}

struct Inner {
    queue: Arc<CommitQueue>,
    cursor: Cursor,
    sweeper: Option<Worker>,
    mark_writer: Option<Worker>,
    committer: Option<JoinHandle<()>>,
}

/// What a claim comes to by reading alone.
enum Reading {
    /// It needs no write: replays, mismatches and duplicates in flight never wait for a sync.
    Answer(Claim),
    /// It does, and this is what was read.
    Write(Option<Snapshot>),
}

// === impl EmbeddedStore ===

impl EmbeddedStore {
    fn open(options: Options) -> Result<Self, OpenError> {
        let sweep_every = options.sweep_every;
        let storage = Arc::new(Storage::open(options)?);
        let queue = Arc::new(CommitQueue::new(Arc::clone(&storage)));
        let committer = {
            let queue = Arc::clone(&queue);
            spawn("semel-committer", storage.path(), move || queue.run_committer())?
        };
        let cursor = Cursor::new(Arc::clone(&queue));
        // Made before the sweeper is started: should that fail, dropping it ends the committer.
        let mut inner =
            Inner { queue, cursor, sweeper: None, mark_writer: None, committer: Some(committer) };
        inner.mark_writer = Some(mark_writer::start(storage)?);
        if let Some(rest) = sweep_every {
            inner.sweeper = Some(sweeper::start(inner.cursor.clone(), rest)?);
        }
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The clock that this store decides by, for a [`Cached`](semel_store::Cached) store around it: it
    /// is not the one of its [options](Options::clock) if that was behind when the store was opened.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.storage().times) as Arc<dyn Clock>
    }

    pub(crate) fn queue(&self) -> &CommitQueue {
        &self.inner.queue
    }

    fn storage(&self) -> &Storage {
        self.inner.queue.storage()
    }

    fn read(&self, attempt: &Attempt, policy: &Policy) -> Result<Reading, StoreError> {
        let storage = self.storage();
        let Some(database) = &*storage.database() else {
            return Ok(Reading::Write(None));
        };
        // Before the read: the answer must have been true at some moment, and a record that is read
        // as it was may be judged by a time at which it still was so.
        let now = storage.now();
        let mut snapshot = self.queue().read(database, attempt.id())?;
        storage.adjust(snapshot.record.as_mut(), now);
        let decision = decide(snapshot.record.as_ref(), attempt, policy, now);
        Ok(match decision.write {
            None => Reading::Answer(decision.claim),
            Some(_) => Reading::Write(Some(snapshot)),
        })
    }
}

impl Store for EmbeddedStore {
    fn claim<'a>(&'a self, attempt: &'a Attempt, policy: &'a Policy) -> StoreFuture<'a, Claim> {
        Box::pin(async move {
            let snapshot = match self.read(attempt, policy)? {
                Reading::Answer(claim) => return Ok(claim),
                Reading::Write(snapshot) => snapshot,
            };
            let decide = |record: Option<&Record>, now| {
                let decision = decide(record, attempt, policy, now);
                (decision.claim, decision.write)
            };
            self.queue().submit(Priority::Claim, attempt.id(), snapshot, decide).await
        })
    }

    fn renew<'a>(&'a self, lease: &'a Lease, duration: Duration) -> StoreFuture<'a, Renewed> {
        Box::pin(self.queue().submit(Priority::Holder, lease.id(), None, move |record, now| {
            Renewed::from_transition(renew(record, lease, duration, now))
        }))
    }

    fn settle<'a>(&'a self, lease: &'a Lease, settlement: Settlement) -> StoreFuture<'a, Settled> {
        Box::pin(self.queue().submit(Priority::Holder, lease.id(), None, move |record, now| {
            Settled::from_transition(settle(record, lease, &settlement, now))
        }))
    }

    fn release<'a>(&'a self, lease: &'a Lease, how: Release) -> StoreFuture<'a, Released> {
        Box::pin(self.queue().submit(Priority::Holder, lease.id(), None, move |record, now| {
            Released::from_transition(release(record, lease, how, now))
        }))
    }

    fn inspect(&self, id: RecordId) -> StoreFuture<'_, Option<Record>> {
        Box::pin(async move {
            let storage = self.storage();
            let database = storage.database();
            let database = database.as_ref().ok_or_else(reopening)?;
            let now = storage.now();
            let mut record = database.get(id)?;
            storage.adjust(record.as_mut(), now);
            Ok(record.filter(|record| !record.is_expired(now)))
        })
    }

    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        Box::pin(async move {
            let cursor = self.inner.cursor.clone();
            // Reading through the table may wait for the disk.
            let step = tokio::task::spawn_blocking(move || cursor.step(limit)).await;
            let cut_short =
                |error| StoreError::unavailable(format!("the sweep was cut short: {error}"));
            step.map_err(cut_short)??.done().await
        })
    }

    fn health(&self) -> StoreFuture<'_, Health> {
        Box::pin(async move {
            self.queue().check().await?;
            Ok(Health { now: self.storage().now(), kind: "embedded", note: None })
        })
    }
}

impl std::fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedStore").field("path", &self.storage().path()).finish()
    }
}

// === impl Options ===

impl Options {
    /// Opens the store, creating it if the directory is missing or empty.
    ///
    /// Blocks while the database reads its log. On error the directory is as it was.
    pub fn open(self) -> Result<EmbeddedStore, OpenError> {
        EmbeddedStore::open(self)
    }
}

// === impl Inner ===

impl Drop for Inner {
    fn drop(&mut self) {
        self.sweeper = None;
        self.queue.close();
        if let Some(committer) = self.committer.take() {
            // A committer that panicked has logged it.
            let _ = committer.join();
        }
        // It writes the last mark, while the directory is still ours.
        self.mark_writer = None;
        // A cancelled sweep may still hold a reference to the storage for a moment.
        self.queue.storage().close();
    }
}
