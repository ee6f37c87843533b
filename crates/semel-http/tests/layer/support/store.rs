use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use semel_core::{Attempt, Claim, Lease, Policy, Record, RecordId, Release, Settlement};
use semel_store::{
    Health, ManualClock, MemoryStore, Released, Renewed, Settled, Store, StoreError, StoreFuture,
    Swept,
};

/// A memory store that can be lost, and knows which records were asked for.
pub(crate) struct TestStore {
    memory: MemoryStore,
    script: Mutex<Script>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Verb {
    Claim,
    Renew,
    Settle,
    Release,
    Inspect,
}

#[derive(Default)]
struct Script {
    lost: HashSet<Verb>,
    damaged: bool,
    /// How often each verb yields before and after its work.
    yields: usize,
    asked: Vec<RecordId>,
}

impl TestStore {
    pub(crate) fn new(clock: &ManualClock) -> Self {
        let memory = MemoryStore::with_clock(std::sync::Arc::new(clock.clone()));
        Self { memory, script: Mutex::default() }
    }

    /// These verbs fail without an effect until [`mend`](Self::mend).
    pub(crate) fn lose(&self, verbs: impl IntoIterator<Item = Verb>) {
        self.script().lost.extend(verbs);
    }

    /// All verbs fail: the store is away.
    pub(crate) fn lose_all(&self) {
        self.lose([Verb::Claim, Verb::Renew, Verb::Settle, Verb::Release, Verb::Inspect]);
    }

    /// What it keeps cannot be read.
    pub(crate) fn damage(&self) {
        self.script().damaged = true;
    }

    pub(crate) fn mend(&self) {
        self.script().lost.clear();
    }

    /// Every verb takes a few polls.
    pub(crate) fn yielding(&self, times: usize) {
        self.script().yields = times;
    }

    /// How many claims came.
    pub(crate) fn claims(&self) -> usize {
        self.script().asked.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.memory.len()
    }

    /// Which record was asked for last.
    pub(crate) fn id(&self) -> Option<RecordId> {
        self.script().asked.last().copied()
    }

    /// The record that was asked for last, if it is there.
    pub(crate) async fn record(&self) -> Option<Record> {
        self.memory.inspect(self.id()?).await.unwrap()
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }

    async fn pause(&self) {
        let times = self.script().yields;
        for _ in 0..times {
            tokio::task::yield_now().await;
        }
    }

    fn play<'a, T: Send + 'a>(
        &'a self,
        verb: Verb,
        call: StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            self.pause().await;
            if self.script().lost.contains(&verb) {
                return Err(StoreError::unavailable("scripted"));
            }
            if self.script().damaged {
                return Err(StoreError::Corrupt { what: "scripted".to_owned() });
            }
            let answer = call.await;
            self.pause().await;
            answer
        })
    }
}

impl Store for TestStore {
    fn claim<'a>(&'a self, attempt: &'a Attempt, policy: &'a Policy) -> StoreFuture<'a, Claim> {
        self.script().asked.push(attempt.id());
        self.play(Verb::Claim, self.memory.claim(attempt, policy))
    }

    fn renew<'a>(&'a self, lease: &'a Lease, duration: Duration) -> StoreFuture<'a, Renewed> {
        self.play(Verb::Renew, self.memory.renew(lease, duration))
    }

    fn settle<'a>(&'a self, lease: &'a Lease, settlement: Settlement) -> StoreFuture<'a, Settled> {
        self.play(Verb::Settle, self.memory.settle(lease, settlement))
    }

    fn release<'a>(&'a self, lease: &'a Lease, how: Release) -> StoreFuture<'a, Released> {
        self.play(Verb::Release, self.memory.release(lease, how))
    }

    fn inspect(&self, id: RecordId) -> StoreFuture<'_, Option<Record>> {
        self.play(Verb::Inspect, self.memory.inspect(id))
    }

    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        self.memory.sweep(limit)
    }

    fn health(&self) -> StoreFuture<'_, Health> {
        self.memory.health()
    }
}
