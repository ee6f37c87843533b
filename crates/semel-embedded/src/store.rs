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

use crate::desk::{Desk, Phase, reopening};
use crate::keeper::Keeper;
use crate::recent::Seen;
use crate::room::Room;
use crate::sweeper::{Cursor, Sweeper};
use crate::turn::Rank;
use crate::{OpenError, Options, committer};

/// Keeps records durably in a directory, for one process.
///
/// Cheap to clone; the directory is given up when the last clone is dropped. Dropping that one
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
    desk: Arc<Desk>,
    cursor: Cursor,
    sweeper: Option<Sweeper>,
    keeper: Option<Keeper>,
    committer: Option<JoinHandle<()>>,
}

/// What a claim comes to by reading alone.
enum Reading {
    /// It needs no write: replays, mismatches and duplicates in flight never wait for a sync.
    Answer(Claim),
    /// It does, and this is what was seen.
    Seen(Option<Seen>),
}

// === impl EmbeddedStore ===

impl EmbeddedStore {
    pub(crate) fn open(options: Options) -> Result<Self, OpenError> {
        let sweep_every = options.sweep_every;
        let desk = Arc::new(Desk::new(Arc::new(Room::open(options)?)));
        let committer = {
            let desk = Arc::clone(&desk);
            let path = desk.room.path().to_owned();
            spawn("semel-committer", &path, move || committer::run(&desk))?
        };
        let cursor = Cursor::new(Arc::clone(&desk));
        // Made before the sweeper is started: should that fail, dropping it ends the committer.
        let mut inner =
            Inner { desk, cursor, sweeper: None, keeper: None, committer: Some(committer) };
        inner.keeper = Some(Keeper::start(Arc::clone(&inner.desk.room))?);
        if let Some(rest) = sweep_every {
            inner.sweeper = Some(Sweeper::start(inner.cursor.clone(), rest)?);
        }
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The clock that this store decides by, for a [`Cached`](semel_store::Cached) store around it: it
    /// is not the one of its [options](Options::clock) if that was behind when the store was opened.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.desk().room.times) as Arc<dyn Clock>
    }

    pub(crate) fn desk(&self) -> &Desk {
        &self.inner.desk
    }

    fn read(&self, attempt: &Attempt, policy: &Policy) -> Result<Reading, StoreError> {
        let room = &self.desk().room;
        let Some(database) = &*room.database() else {
            return Ok(Reading::Seen(None));
        };
        // Before the look: the answer must have been true at some moment, and a record that is seen
        // as it was may be judged by a time at which it still was so.
        let now = room.now();
        let mut seen = self.desk().read(database, attempt.id())?;
        room.judge(seen.record.as_mut(), now);
        let decision = decide(seen.record.as_ref(), attempt, policy, now);
        Ok(match decision.write {
            None => Reading::Answer(decision.claim),
            Some(_) => Reading::Seen(Some(seen)),
        })
    }
}

impl Store for EmbeddedStore {
    fn claim<'a>(&'a self, attempt: &'a Attempt, policy: &'a Policy) -> StoreFuture<'a, Claim> {
        Box::pin(async move {
            let seen = match self.read(attempt, policy)? {
                Reading::Answer(claim) => return Ok(claim),
                Reading::Seen(seen) => seen,
            };
            let decide = |record: Option<&Record>, now| {
                let decision = decide(record, attempt, policy, now);
                (decision.claim, decision.write)
            };
            self.desk().submit(Rank::Claim, attempt.id(), seen, decide).await
        })
    }

    fn renew<'a>(&'a self, lease: &'a Lease, duration: Duration) -> StoreFuture<'a, Renewed> {
        Box::pin(self.desk().submit(Rank::Holder, lease.id(), None, move |record, now| {
            Renewed::from_transition(renew(record, lease, duration, now))
        }))
    }

    fn settle<'a>(&'a self, lease: &'a Lease, settlement: Settlement) -> StoreFuture<'a, Settled> {
        Box::pin(self.desk().submit(Rank::Holder, lease.id(), None, move |record, now| {
            Settled::from_transition(settle(record, lease, &settlement, now))
        }))
    }

    fn release<'a>(&'a self, lease: &'a Lease, how: Release) -> StoreFuture<'a, Released> {
        Box::pin(self.desk().submit(Rank::Holder, lease.id(), None, move |record, now| {
            Released::from_transition(release(record, lease, how, now))
        }))
    }

    fn inspect(&self, id: RecordId) -> StoreFuture<'_, Option<Record>> {
        Box::pin(async move {
            let room = &self.desk().room;
            let database = room.database();
            let database = database.as_ref().ok_or_else(reopening)?;
            let now = room.now();
            let mut record = database.get(id)?;
            room.judge(record.as_mut(), now);
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
            self.desk().check().await?;
            Ok(Health { now: self.desk().room.now(), kind: "embedded", note: None })
        })
    }
}

impl std::fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedStore").field("path", &self.desk().room.path()).finish()
    }
}

// === impl Inner ===

impl Drop for Inner {
    fn drop(&mut self) {
        self.sweeper = None;
        self.desk.state().phase = Phase::Closed;
        self.desk.work.notify_all();
        if let Some(committer) = self.committer.take() {
            // One that panicked has said so; there is nothing to add while dropping.
            let _ = committer.join();
        }
        // With the last mark, while the directory is still ours.
        self.keeper = None;
        // A sweep that was given up may still hold the room for a moment.
        self.desk.room.close();
    }
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
