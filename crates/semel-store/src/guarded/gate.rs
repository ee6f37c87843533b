//! What lets calls to a store through, or not.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout};

use super::Guard;
use super::breaker::{Breaker, BreakerState, Caller, Cause, Ticket};
use crate::{StoreError, StoreFuture};

/// A deadline, a breaker for each part, and a limit on calls.
#[derive(Debug)]
pub(crate) struct Gate {
    guard: Guard,
    breakers: Box<[Mutex<Breaker>]>,
    calls: Semaphore,
}

/// One call that the breaker let through. Dropped without having ended, it tells the breaker so.
struct Call<'a> {
    gate: &'a Gate,
    breaker: &'a Mutex<Breaker>,
    ticket: Option<Ticket>,
    _permit: SemaphorePermit<'a>,
}

/// How many parts are told apart (I10). If there are more, some share a breaker; none shares that of the
/// whole.
const BREAKERS: usize = 128;
/// Users are probes so many times more rarely at last than at first, in an outage that lasts.
const OPEN_TIMES: u32 = 16;

// === impl Gate ===

impl Gate {
    pub(crate) fn new(guard: Guard) -> Self {
        let open_for = guard.open_for..=guard.open_for * OPEN_TIMES;
        let breaker = |_| Mutex::new(Breaker::new(guard.failures_to_open, open_for.clone()));
        Self {
            guard,
            breakers: (0..BREAKERS).map(breaker).collect(),
            calls: Semaphore::new(guard.calls_max.min(Semaphore::MAX_PERMITS)),
        }
    }

    /// Of all parts: the state that is furthest from closed.
    pub(crate) fn state(&self) -> BreakerState {
        let states = self.breakers.iter().map(|breaker| lock(breaker).state());
        states.max().unwrap_or(BreakerState::Closed)
    }

    /// Do calls to a part go through?
    pub(crate) fn is_closed(&self, part: usize) -> bool {
        lock(self.breaker(part)).state() == BreakerState::Closed
    }

    /// Makes one call to a part. `ask` is not called at all if the call may not be made.
    pub(crate) async fn call<'a, T>(
        &'a self,
        verb: &str,
        part: usize,
        ask: impl FnOnce() -> StoreFuture<'a, T>,
    ) -> Result<T, StoreError> {
        self.begin(Caller::User, part)?.make(verb, ask()).await
    }

    /// Asks for the health of all, from which something follows for each part.
    pub(crate) async fn watch<'a, T>(
        &'a self,
        part: usize,
        ask: impl FnOnce() -> StoreFuture<'a, T>,
    ) -> Result<T, StoreError> {
        // Whoever is not let through has seen nothing.
        let health = self.begin(Caller::Watcher, part)?.make("health", ask()).await;
        let now = Instant::now();
        self.breakers.iter().for_each(|breaker| lock(breaker).watched(health.is_ok(), now));
        health
    }

    fn begin(&self, caller: Caller, part: usize) -> Result<Call<'_>, StoreError> {
        let Ok(permit) = self.calls.try_acquire() else {
            return Err(self.too_many_calls());
        };
        let breaker = self.breaker(part);
        match lock(breaker).admit(caller, Instant::now()) {
            Ok(ticket) => Ok(Call { gate: self, breaker, ticket: Some(ticket), _permit: permit }),
            Err(cause) => Err(refused(&cause)),
        }
    }

    fn breaker(&self, part: usize) -> &Mutex<Breaker> {
        match part.checked_sub(1) {
            None => &self.breakers[0],
            Some(number) => &self.breakers[1 + number % (BREAKERS - 1)],
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

// === impl Call ===

impl Call<'_> {
    async fn make<T>(mut self, verb: &str, asked: StoreFuture<'_, T>) -> Result<T, StoreError> {
        let deadline = self.gate.guard.deadline;
        let result = match timeout(deadline, asked).await {
            Ok(result) => result,
            Err(_) => Err(StoreError::deadline(verb, deadline)),
        };
        self.ended(&result);
        result
    }

    fn ended<T>(&mut self, result: &Result<T, StoreError>) {
        let Some(ticket) = self.ticket.take() else {
            return;
        };
        match result {
            Err(error) if error.is_passing() => {
                // Where one part is gone, all may be: nobody should wait for each in turn.
                let suspected = self.gate.state() != BreakerState::Closed;
                let cause = || Arc::from(error.to_string());
                lock(self.breaker).failed(&ticket, Instant::now(), suspected, cause);
            }
            _ => lock(self.breaker).answered(&ticket),
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
