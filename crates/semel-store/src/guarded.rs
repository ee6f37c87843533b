use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_core::{Attempt, Claim, Lease, Policy, Record, RecordId, Release, Settlement};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::{Health, Released, Renewed, Settled, Store, StoreError, StoreFuture, Swept, Watch};

mod breaker;

pub use breaker::BreakerState;
use breaker::{Breaker, Cause, Ticket};

/// Keeps a store's outage from becoming everyone's: a deadline on every verb, a circuit breaker
/// and a limit on concurrent calls (trap 14).
///
/// - A verb that takes longer than [`Guard::deadline`] is dropped, which the contract of [`Store`]
///   allows, and fails with [`StoreError::TimedOut`]: it may have taken effect.
/// - After [`Guard::failures_to_open`] failures in a row the breaker opens: verbs fail at once with
///   [`StoreError::Unavailable`], without asking the store. After [`Guard::open_for`] one verb is
///   let through; if the store answers it, the breaker closes.
/// - Beyond [`Guard::calls_max`] verbs under way, further ones fail at once.
///
/// Only passing errors count as failures. A store that answers "damaged" or "set up wrongly" has
/// answered: no pause would mend it.
#[derive(Debug)]
pub struct Guarded<S> {
    store: S,
    guard: Guard,
    breaker: Mutex<Breaker>,
    calls: Semaphore,
}

/// The limits of a [`Guarded`] store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// How long one verb may take.
    pub deadline: Duration,
    /// How many passing failures in a row open the breaker; zero is taken for one.
    pub failures_to_open: u32,
    /// How long the breaker stays open before one verb is let through.
    pub open_for: Duration,
    /// How many verbs may be under way at once (I10).
    pub calls_max: usize,
}

/// One call that the breaker let through. Dropped without having ended, it tells the breaker so.
struct Call<'a> {
    breaker: &'a Mutex<Breaker>,
    ticket: Option<Ticket>,
}

// === impl Guard ===

impl Default for Guard {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(2),
            failures_to_open: 5,
            open_for: Duration::from_secs(1),
            calls_max: 10_000,
        }
    }
}

// === impl Guarded ===

impl<S: Store> Guarded<S> {
    /// Puts a guard before `store`.
    pub fn new(store: S, guard: Guard) -> Self {
        Self {
            store,
            guard,
            breaker: Mutex::new(Breaker::new(guard.failures_to_open, guard.open_for)),
            calls: Semaphore::new(guard.calls_max.min(Semaphore::MAX_PERMITS)),
        }
    }

    /// Where the breaker stands.
    pub fn state(&self) -> BreakerState {
        lock(&self.breaker).state()
    }

    /// Makes one call. `ask` is not called at all if the call may not be made.
    async fn call<'a, T>(
        &'a self,
        verb: &str,
        ask: impl FnOnce() -> StoreFuture<'a, T>,
    ) -> Result<T, StoreError> {
        let Ok(_permit) = self.calls.try_acquire() else {
            return Err(self.too_many_calls());
        };
        let mut call = self.admit()?;
        let result = match timeout(self.guard.deadline, ask()).await {
            Ok(result) => result,
            Err(_) => Err(StoreError::deadline(verb, self.guard.deadline)),
        };
        call.ended(&result);
        result
    }

    fn admit(&self) -> Result<Call<'_>, StoreError> {
        match lock(&self.breaker).admit(Instant::now()) {
            Ok(ticket) => Ok(Call { breaker: &self.breaker, ticket: Some(ticket) }),
            Err(cause) => Err(refused(&cause)),
        }
    }

    fn too_many_calls(&self) -> StoreError {
        let max = self.guard.calls_max;
        StoreError::unavailable(format!(
            "{max} calls are under way already, and this is the limit; nothing was asked of it"
        ))
    }
}

fn refused(cause: &Cause) -> StoreError {
    StoreError::unavailable(format!(
        "its circuit breaker is open, so nothing was asked of it; it opened because {cause}"
    ))
}

fn lock(breaker: &Mutex<Breaker>) -> MutexGuard<'_, Breaker> {
    // No code panics while it holds the lock.
    breaker.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: Store> Store for Guarded<S> {
    fn claim<'a>(&'a self, attempt: &'a Attempt, policy: &'a Policy) -> StoreFuture<'a, Claim> {
        Box::pin(self.call("claim", move || self.store.claim(attempt, policy)))
    }

    fn recall(&self, attempt: &Attempt) -> Option<Claim> {
        // Known without asking, so it is known in an outage too.
        self.store.recall(attempt)
    }

    fn watch(&self, id: RecordId) -> Option<Watch> {
        self.store.watch(id)
    }

    fn renew<'a>(&'a self, lease: &'a Lease, duration: Duration) -> StoreFuture<'a, Renewed> {
        Box::pin(self.call("renew", move || self.store.renew(lease, duration)))
    }

    fn settle<'a>(&'a self, lease: &'a Lease, settlement: Settlement) -> StoreFuture<'a, Settled> {
        Box::pin(self.call("settle", move || self.store.settle(lease, settlement)))
    }

    fn release<'a>(&'a self, lease: &'a Lease, how: Release) -> StoreFuture<'a, Released> {
        Box::pin(self.call("release", move || self.store.release(lease, how)))
    }

    fn inspect(&self, id: RecordId) -> StoreFuture<'_, Option<Record>> {
        Box::pin(self.call("inspect", move || self.store.inspect(id)))
    }

    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        Box::pin(self.call("sweep", move || self.store.sweep(limit)))
    }

    fn health(&self) -> StoreFuture<'_, Health> {
        Box::pin(self.call("health", move || self.store.health()))
    }
}

// === impl Call ===

impl Call<'_> {
    fn ended<T>(&mut self, result: &Result<T, StoreError>) {
        let Some(ticket) = self.ticket.take() else {
            return;
        };
        let mut breaker = lock(self.breaker);
        match result {
            Err(error) if error.is_passing() => {
                breaker.failed(&ticket, Instant::now(), || Arc::from(error.to_string()));
            }
            _ => breaker.answered(&ticket),
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            lock(self.breaker).dropped(&ticket, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests;
