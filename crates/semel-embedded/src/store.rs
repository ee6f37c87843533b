use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use semel_core::{Attempt, Claim, Lease, Policy, Record, RecordId, Release, Settlement, decide};
use semel_store::{Health, Released, Renewed, Settled, Store, StoreError, StoreFuture, Swept};
use tokio::sync::{mpsc, oneshot};

use crate::committer::Committer;
use crate::operation::{Operation, ReplyTo, Verb};
use crate::recent::Seen;
use crate::room::Room;
use crate::sweeper::{Cursor, Sweeper};
use crate::{OpenError, Options, tuning};

/// Keeps records durably in a directory, for one process.
///
/// Cheap to clone; the directory is given up when the last clone is dropped. Dropping that one
/// blocks until what was begun is written.
#[derive(Clone)]
pub struct EmbeddedStore {
    inner: Arc<Inner>,
}

struct Inner {
    // The order of fields is the order of ending: no more questions, no more sweeps, then the
    // committer finishes its last group.
    queue: Option<mpsc::Sender<Operation>>,
    sweeper: Option<Sweeper>,
    committer: Option<JoinHandle<()>>,
    room: Arc<Room>,
    cursor: Cursor,
}

// === impl EmbeddedStore ===

impl EmbeddedStore {
    pub(crate) fn open(options: Options) -> Result<Self, OpenError> {
        let sweep_every = options.sweep_every;
        let room = Arc::new(Room::open(options)?);
        let (queue, operations) = mpsc::channel(tuning::QUEUE_MAX);
        let committer = Committer::new(Arc::clone(&room), operations);
        let committer = spawn("semel-committer", room.path(), move || committer.run())?;
        let cursor = Cursor::new(Arc::clone(&room), queue.downgrade());
        let sweeper = match sweep_every {
            Some(rest) => Some(Sweeper::start(cursor.clone(), rest)?),
            None => None,
        };
        let inner = Inner { queue: Some(queue), sweeper, committer: Some(committer), room, cursor };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Decides a claim from what can be read, if that needs no write: replays, mismatches and
    /// duplicates in flight never wait for the committer. Else, what was seen.
    fn claim_by_reading(
        &self,
        attempt: &Attempt,
        policy: &Policy,
    ) -> Result<Result<Claim, Option<Seen>>, StoreError> {
        let room = &self.inner.room;
        // Before the look: a group that is visible after this number was taken can only make what
        // is seen newer than `as_of` says.
        let as_of = room.committed.load(Ordering::Acquire);
        let Some(database) = &*room.database() else {
            return Ok(Err(None));
        };
        let record = database.get(attempt.id())?;
        let decision = decide(record.as_ref(), attempt, policy, room.now());
        Ok(match decision.write {
            None => Ok(decision.claim),
            Some(_) => Err(Some(Seen { as_of, record })),
        })
    }

    /// Puts a question to the committer and waits for its group to become durable.
    async fn ask<T>(
        &self,
        operation: impl FnOnce(ReplyTo<T>) -> Operation,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let queue = self.inner.queue.as_ref().ok_or_else(closed)?;
        queue.send(operation(reply)).await.map_err(|_| closed())?;
        // The committer answers everything it takes; it is gone only if it panicked in the middle
        // of a group, and then nobody knows what was written.
        answer.await.unwrap_or_else(|_| {
            Err(StoreError::TimedOut {
                what: "the committer of the embedded store has stopped; restart the process".into(),
                source: None,
            })
        })
    }

    async fn write<T>(
        &self,
        lease: &Lease,
        verb: impl FnOnce(Lease, ReplyTo<T>) -> Verb,
    ) -> Result<T, StoreError> {
        // The caller keeps its own lease, to repeat the verb with.
        let same_right = Lease::new(
            lease.id(),
            lease.fingerprint(),
            lease.fence(),
            lease.owner(),
            lease.until(),
            lease.expires(),
        );
        self.ask(|reply| Operation::Write {
            id: lease.id(),
            seen: None,
            verb: verb(same_right, reply),
        })
        .await
    }
}

impl Store for EmbeddedStore {
    fn claim<'a>(&'a self, attempt: &'a Attempt, policy: &'a Policy) -> StoreFuture<'a, Claim> {
        Box::pin(async move {
            match self.claim_by_reading(attempt, policy)? {
                Ok(claim) => Ok(claim),
                Err(seen) => {
                    let attempt =
                        Attempt::new(attempt.id(), attempt.fingerprint(), attempt.owner());
                    let policy = policy.clone();
                    self.ask(|reply| Operation::Write {
                        id: attempt.id(),
                        seen,
                        verb: Verb::Claim { attempt, policy, reply },
                    })
                    .await
                }
            }
        })
    }

    fn renew<'a>(&'a self, lease: &'a Lease, duration: Duration) -> StoreFuture<'a, Renewed> {
        Box::pin(self.write(lease, move |lease, reply| Verb::Renew { lease, duration, reply }))
    }

    fn settle<'a>(&'a self, lease: &'a Lease, settlement: Settlement) -> StoreFuture<'a, Settled> {
        Box::pin(self.write(lease, move |lease, reply| Verb::Settle { lease, settlement, reply }))
    }

    fn release<'a>(&'a self, lease: &'a Lease, how: Release) -> StoreFuture<'a, Released> {
        Box::pin(self.write(lease, move |lease, reply| Verb::Release { lease, how, reply }))
    }

    fn inspect(&self, id: RecordId) -> StoreFuture<'_, Option<Record>> {
        Box::pin(async move {
            let room = &self.inner.room;
            let database = room.database();
            let Some(database) = database.as_ref() else {
                return Err(reopening());
            };
            Ok(database.get(id)?.filter(|record| !record.is_expired(room.now())))
        })
    }

    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        Box::pin(async move {
            let cursor = self.inner.cursor.clone();
            // Reading through the table may wait for the disk.
            tokio::task::spawn_blocking(move || cursor.sweep(limit)).await.unwrap_or_else(|error| {
                Err(StoreError::unavailable(format!("the sweep was cut short: {error}")))
            })
        })
    }

    fn health(&self) -> StoreFuture<'_, Health> {
        Box::pin(async move {
            self.ask(|reply| Operation::Ping { reply }).await?;
            Ok(Health { now: self.inner.room.now(), kind: "embedded" })
        })
    }
}

impl std::fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedStore").field("path", &self.inner.room.path()).finish()
    }
}

// === impl Inner ===

impl Drop for Inner {
    fn drop(&mut self) {
        self.sweeper = None;
        self.queue = None;
        if let Some(committer) = self.committer.take() {
            // A committer that panicked has said so; there is nothing to add while dropping.
            let _ = committer.join();
        }
    }
}

fn closed() -> StoreError {
    StoreError::unavailable("the embedded store has been closed")
}

fn reopening() -> StoreError {
    StoreError::unavailable("the embedded store is being opened again after a failure")
}

pub(crate) fn spawn(
    name: &str,
    path: &std::path::Path,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, OpenError> {
    std::thread::Builder::new()
        .name(name.into())
        .spawn(run)
        .map_err(|error| OpenError::io(path, error))
}
