mod entries;

pub use entries::MemoryLimits;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use semel_core::{
    Attempt, Claim, Lease, Policy, Record, RecordId, Release, Settlement, Timestamp, Transition,
    decide, release, renew, settle,
};

use self::entries::Entries;
use crate::{
    Clock, FromTransition, Health, Released, Renewed, Settled, SteadyClock, Store, StoreError,
    StoreFuture, Swept,
};

/// Keeps records in this process's memory: the reference store.
///
/// It is `semel_core` behind a lock, so it is right by construction and every other store is
/// compared with it. It forgets everything when the process ends.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    entries: Arc<Mutex<Entries>>,
    clock: Arc<dyn Clock>,
}

/// The note of a full store, with the cure.
const IS_FULL: &str = "the memory store is full and takes no new keys until records expire; keep records for less \
                       long, or use a store on disk or on a server";

// === impl MemoryStore ===

impl MemoryStore {
    /// An empty store on the machine's clock, without limits.
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SteadyClock::start()))
    }

    /// An empty store on a given clock, without limits.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self::with_limits(clock, MemoryLimits::NONE)
    }

    /// An empty store on a given clock, within limits.
    pub fn with_limits(clock: Arc<dyn Clock>, limits: MemoryLimits) -> Self {
        Self { entries: Arc::new(Mutex::new(Entries::within(limits))), clock }
    }

    /// Deletes expired records in the background, once per `interval`, by a task on the present runtime
    /// that ends with the last clone of this store. Without it, or calls of
    /// [`sweep`](Store::sweep), they stay in memory until it is full.
    pub fn sweep_every(&self, interval: Duration) {
        let entries = Arc::downgrade(&self.entries);
        tokio::spawn(sweep_repeatedly(entries, Arc::clone(&self.clock), interval));
    }

    /// The number of records, expired ones included.
    pub fn len(&self) -> usize {
        self.entries().len()
    }

    /// Whether there are no records, not even expired ones.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        // No code panics while it holds the lock with a record half written.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn claim_now(&self, attempt: &Attempt, policy: &Policy) -> Result<Claim, StoreError> {
        let (id, mut entries) = (attempt.id(), self.entries());
        let now = self.clock.now();
        let record = entries.get(id);
        let decision = decide(record, attempt, policy, now);
        let is_repeated = record.is_some_and(|record| record.owner == attempt.owner());
        if matches!(decision.claim, Claim::Execute(_)) && !is_repeated && !entries.has_room(id, now)
        {
            return Err(StoreError::Declined { what: IS_FULL.to_owned(), source: None });
        }
        if let Some(record) = decision.write {
            entries.put(id, record);
        }
        Ok(decision.claim)
    }

    /// Applies one fenced write.
    fn write<A: FromTransition>(
        &self,
        id: RecordId,
        transition: impl FnOnce(Option<&Record>, Timestamp) -> Transition,
    ) -> A {
        let mut entries = self.entries();
        let now = self.clock.now();
        let (answer, write) = A::from_transition(transition(entries.get(id), now));
        if let Some(record) = write {
            entries.put(id, record);
        }
        answer
    }

    fn sweep_now(&self, limit: usize) -> Swept {
        let now = self.clock.now();
        self.entries().sweep(limit, now)
    }
}

async fn sweep_repeatedly(
    entries: Weak<Mutex<Entries>>,
    clock: Arc<dyn Clock>,
    interval: Duration,
) {
    loop {
        tokio::time::sleep(interval).await;
        let Some(entries) = entries.upgrade() else { return };
        MemoryStore { entries, clock: Arc::clone(&clock) }.sweep_now(usize::MAX);
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Store for MemoryStore {
    fn claim<'a>(&'a self, attempt: &'a Attempt, policy: &'a Policy) -> StoreFuture<'a, Claim> {
        Box::pin(async move { self.claim_now(attempt, policy) })
    }

    fn renew<'a>(&'a self, lease: &'a Lease, duration: Duration) -> StoreFuture<'a, Renewed> {
        Box::pin(async move {
            Ok(self.write(lease.id(), |record, now| renew(record, lease, duration, now)))
        })
    }

    fn settle<'a>(&'a self, lease: &'a Lease, settlement: Settlement) -> StoreFuture<'a, Settled> {
        Box::pin(async move {
            Ok(self.write(lease.id(), |record, now| settle(record, lease, &settlement, now)))
        })
    }

    fn release<'a>(&'a self, lease: &'a Lease, how: Release) -> StoreFuture<'a, Released> {
        Box::pin(async move {
            Ok(self.write(lease.id(), |record, now| release(record, lease, how, now)))
        })
    }

    fn inspect(&self, id: RecordId) -> StoreFuture<'_, Option<Record>> {
        Box::pin(async move {
            let now = self.clock.now();
            Ok(self.entries().get(id).filter(|record| !record.is_expired(now)).cloned())
        })
    }

    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        Box::pin(async move { Ok(self.sweep_now(limit)) })
    }

    fn health(&self) -> StoreFuture<'_, Health> {
        Box::pin(async move {
            let note = self.entries().is_full().then(|| IS_FULL.to_owned());
            Ok(Health { now: self.clock.now(), kind: "memory", note })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ManualClock;
    use crate::faulty::attempt;

    #[tokio::test(start_paused = true)]
    async fn the_background_sweep_ends_with_the_store() {
        let interval = Duration::from_mins(1);
        let clock = ManualClock::default();
        let store = MemoryStore::with_clock(Arc::new(clock.clone()));
        let entries = Arc::downgrade(&store.entries);
        let task = tokio::spawn(sweep_repeatedly(entries, Arc::new(clock.clone()), interval));
        store.claim(&attempt("k", 1), &Policy::default()).await.unwrap();
        tokio::time::sleep(interval * 2).await;
        assert_eq!(store.len(), 1);
        clock.advance(Policy::default().ttl());
        tokio::time::sleep(interval * 2).await;
        assert!(store.is_empty());
        drop(store);
        task.await.unwrap();
    }
}
