//! A memory store that fails on command, for the tests of the wrappers.

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

/// Counts its calls, and fails or hangs on command.
#[derive(Debug)]
pub(crate) struct FaultyStore {
    memory: MemoryStore,
    behaviour: Mutex<Behaviour>,
    calls: AtomicUsize,
}

/// What every call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// Answers.
    Normal,
    /// Answers after a delay.
    Slow(Duration),
    /// Never answers, without an effect.
    Silent,
    /// Takes effect, and never answers.
    AppliesSilently,
    Unavailable,
    Declined,
    NotAsked,
    TimedOut,
    Corrupt,
    Misconfigured,
}

// === impl FaultyStore ===

impl FaultyStore {
    pub(crate) fn on(clock: &ManualClock) -> Arc<Self> {
        Arc::new(Self {
            memory: MemoryStore::with_clock(Arc::new(clock.clone())),
            behaviour: Mutex::new(Behaviour::Normal),
            calls: AtomicUsize::new(0),
        })
    }

    pub(crate) fn set_behaviour(&self, behaviour: Behaviour) {
        *self.behaviour.lock().unwrap() = behaviour;
    }

    /// The number of calls since this was last called.
    pub(crate) fn take_calls(&self) -> usize {
        self.calls.swap(0, Ordering::SeqCst)
    }

    fn answer<'a, T: Send + 'a>(&'a self, work: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let behaviour = *self.behaviour.lock().unwrap();
        Box::pin(async move {
            let what = String::from("out of order");
            match behaviour {
                Behaviour::Normal => work.await,
                Behaviour::Slow(delay) => {
                    tokio::time::sleep(delay).await;
                    work.await
                }
                Behaviour::Silent => future::pending().await,
                Behaviour::AppliesSilently => {
                    work.await?;
                    future::pending().await
                }
                Behaviour::Unavailable => Err(StoreError::unavailable(what)),
                Behaviour::TimedOut => Err(StoreError::TimedOut { what, source: None }),
                Behaviour::Declined => Err(StoreError::Declined { what, source: None }),
                Behaviour::NotAsked => Err(StoreError::not_asked(what)),
                Behaviour::Corrupt => Err(StoreError::Corrupt { what }),
                Behaviour::Misconfigured => Err(StoreError::Misconfigured { what }),
            }
        })
    }
}

impl Store for FaultyStore {
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
