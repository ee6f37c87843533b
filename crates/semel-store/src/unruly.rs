//! A memory store that does as it is told, for the tests of the wrappers.

use std::future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel_core::{
    Attempt, Claim, Fingerprint, Key, Lease, Owner, Policy, Record, RecordId, Release, Reply,
    Scope, Settlement, Timestamp,
};

use crate::{
    Health, ManualClock, MemoryStore, Released, Renewed, Settled, Store, StoreError, StoreFuture,
    Swept,
};

/// Keeps count of what it is asked, and fails or hangs on command.
#[derive(Debug)]
pub(crate) struct Unruly {
    memory: MemoryStore,
    mood: Mutex<Mood>,
    asked: AtomicUsize,
}

/// How the store behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// It does its work.
    Willing,
    /// It does its work after so long.
    Slow(Duration),
    /// It never answers and does nothing.
    Silent,
    /// It does its work and never says so.
    ActsAndIsSilent,
    Unavailable,
    Declined,
    TimedOut,
    Corrupt,
    Misconfigured,
}

// === impl Unruly ===

impl Unruly {
    pub(crate) fn on(clock: &ManualClock) -> Arc<Self> {
        Arc::new(Self {
            memory: MemoryStore::with_clock(Arc::new(clock.clone())),
            mood: Mutex::new(Mood::Willing),
            asked: AtomicUsize::new(0),
        })
    }

    pub(crate) fn turns(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    /// How often it was asked anything since the last time this was called.
    pub(crate) fn asked(&self) -> usize {
        self.asked.swap(0, Ordering::SeqCst)
    }

    fn answer<'a, T: Send + 'a>(&'a self, work: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mood = *self.mood.lock().unwrap();
        Box::pin(async move {
            let what = String::from("out of order");
            match mood {
                Mood::Willing => work.await,
                Mood::Slow(delay) => {
                    tokio::time::sleep(delay).await;
                    work.await
                }
                Mood::Silent => future::pending().await,
                Mood::ActsAndIsSilent => {
                    work.await?;
                    future::pending().await
                }
                Mood::Unavailable => Err(StoreError::unavailable(what)),
                Mood::TimedOut => Err(StoreError::TimedOut { what, source: None }),
                Mood::Declined => Err(StoreError::Declined { what, source: None }),
                Mood::Corrupt => Err(StoreError::Corrupt { what }),
                Mood::Misconfigured => Err(StoreError::Misconfigured { what }),
            }
        })
    }
}

impl Store for Unruly {
    fn claim<'a>(&'a self, attempt: &'a Attempt, policy: &'a Policy) -> StoreFuture<'a, Claim> {
        self.answer(self.memory.claim(attempt, policy))
    }

    fn renew<'a>(&'a self, lease: &'a Lease, duration: Duration) -> StoreFuture<'a, Renewed> {
        self.answer(self.memory.renew(lease, duration))
    }

    fn settle<'a>(&'a self, lease: &'a Lease, settlement: Settlement) -> StoreFuture<'a, Settled> {
        self.answer(self.memory.settle(lease, settlement))
    }

    fn release<'a>(&'a self, lease: &'a Lease, how: Release) -> StoreFuture<'a, Released> {
        self.answer(self.memory.release(lease, how))
    }

    fn inspect(&self, id: RecordId) -> StoreFuture<'_, Option<Record>> {
        self.answer(self.memory.inspect(id))
    }

    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        self.answer(self.memory.sweep(limit))
    }

    fn health(&self) -> StoreFuture<'_, Health> {
        self.answer(self.memory.health())
    }
}

pub(crate) fn clock() -> ManualClock {
    ManualClock::at(Timestamp::from_millis(1_700_000_000_000))
}

pub(crate) fn attempt(key: &str, owner: u128) -> Attempt {
    request(key, owner, "pay 100")
}

pub(crate) fn request(key: &str, owner: u128, body: &str) -> Attempt {
    let id = RecordId::new("test", &Scope::global(), &Key::parse(key).unwrap());
    let fingerprint = Fingerprint::new([("body", body)]);
    Attempt::new(id, fingerprint, Owner::from_u128(owner))
}

pub(crate) fn completed(bytes: impl Into<bytes::Bytes>) -> Settlement {
    Settlement::Completed(Reply::new(bytes))
}

pub(crate) async fn lease(store: &impl Store, attempt: &Attempt, policy: &Policy) -> Lease {
    match store.claim(attempt, policy).await.unwrap() {
        Claim::Execute(lease) => lease,
        other => panic!("expected Execute, got {other:?}"),
    }
}
