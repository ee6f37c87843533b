use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use semel_core::{
    Attempt, Claim, Lease, Policy, Record, RecordId, Release, Settlement, Timestamp, Transition,
    decide, release, renew, settle,
};

use crate::{
    Clock, FromTransition, Health, RecordMap, Released, Renewed, Settled, SteadyClock, Store,
    StoreFuture, Swept,
};

/// Keeps records in this process's memory: the reference store.
///
/// It is `semel_core` behind a lock, so it is right by construction and every other store is
/// compared with it. It forgets everything when the process ends.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    records: Arc<Mutex<RecordMap<Record>>>,
    clock: Arc<dyn Clock>,
}

// === impl MemoryStore ===

impl MemoryStore {
    /// An empty store on the machine's clock.
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SteadyClock::start()))
    }

    /// An empty store on a given clock.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self { records: Arc::default(), clock }
    }

    /// Deletes expired records in the background, once in every `rest`, by a task on the present runtime
    /// that ends with the last clone of this store. Without it, or calls of
    /// [`sweep`](Store::sweep), they stay in memory.
    pub fn sweep_every(&self, rest: Duration) {
        let records = Arc::downgrade(&self.records);
        tokio::spawn(sweep_again(records, Arc::clone(&self.clock), rest));
    }

    /// How many records are kept, expired ones included.
    pub fn len(&self) -> usize {
        self.records().len()
    }

    /// Is nothing kept?
    pub fn is_empty(&self) -> bool {
        self.records().is_empty()
    }

    fn records(&self) -> MutexGuard<'_, RecordMap<Record>> {
        // No code panics while it holds the lock with a record half written.
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn claim_now(&self, attempt: &Attempt, policy: &Policy) -> Claim {
        self.change(attempt.id(), |record, now| {
            let decision = decide(record, attempt, policy, now);
            (decision.claim, decision.write)
        })
    }

    /// Makes one fenced write.
    fn write<A: FromTransition>(
        &self,
        id: RecordId,
        transition: impl FnOnce(Option<&Record>, Timestamp) -> Transition,
    ) -> A {
        self.change(id, |record, now| A::from_transition(transition(record, now)))
    }

    /// Decides about a record and writes what was decided, in one step.
    fn change<A>(
        &self,
        id: RecordId,
        decide: impl FnOnce(Option<&Record>, Timestamp) -> (A, Option<Record>),
    ) -> A {
        let mut records = self.records();
        let now = self.clock.now();
        match records.entry(id) {
            Entry::Occupied(mut entry) => {
                let (answer, write) = decide(Some(entry.get()), now);
                if let Some(record) = write {
                    entry.insert(record);
                }
                answer
            }
            Entry::Vacant(entry) => {
                let (answer, write) = decide(None, now);
                if let Some(record) = write {
                    entry.insert(record);
                }
                answer
            }
        }
    }

    fn sweep_now(&self, limit: usize) -> Swept {
        let now = self.clock.now();
        let mut records = self.records();
        let expired: Vec<RecordId> =
            records.iter().filter(|(_, r)| r.is_expired(now)).map(|(id, _)| *id).collect();
        for id in expired.iter().take(limit) {
            records.remove(id);
        }
        Swept { deleted: expired.len().min(limit), more: expired.len() > limit }
    }
}

async fn sweep_again(
    records: Weak<Mutex<RecordMap<Record>>>,
    clock: Arc<dyn Clock>,
    rest: Duration,
) {
    loop {
        tokio::time::sleep(rest).await;
        let Some(records) = records.upgrade() else { return };
        MemoryStore { records, clock: Arc::clone(&clock) }.sweep_now(usize::MAX);
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Store for MemoryStore {
    fn claim<'a>(&'a self, attempt: &'a Attempt, policy: &'a Policy) -> StoreFuture<'a, Claim> {
        Box::pin(async move { Ok(self.claim_now(attempt, policy)) })
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
            Ok(self.records().get(&id).filter(|record| !record.is_expired(now)).cloned())
        })
    }

    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        Box::pin(async move { Ok(self.sweep_now(limit)) })
    }

    fn health(&self) -> StoreFuture<'_, Health> {
        Box::pin(async move { Ok(Health { now: self.clock.now(), kind: "memory", note: None }) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ManualClock;
    use crate::unruly::attempt;

    #[tokio::test(start_paused = true)]
    async fn it_can_sweep_by_itself_for_as_long_as_it_lives() {
        let rest = Duration::from_mins(1);
        let clock = ManualClock::default();
        let store = MemoryStore::with_clock(Arc::new(clock.clone()));
        let records = Arc::downgrade(&store.records);
        let task = tokio::spawn(sweep_again(records, Arc::new(clock.clone()), rest));
        store.claim(&attempt("k", 1), &Policy::default()).await.unwrap();
        tokio::time::sleep(rest * 2).await;
        assert_eq!(store.len(), 1);
        clock.advance(Policy::default().ttl());
        tokio::time::sleep(rest * 2).await;
        assert!(store.is_empty());
        drop(store);
        task.await.unwrap();
    }
}
