//! What lets calls to a store through, or not.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::Guard;
use super::breaker::{Breaker, BreakerState, Cause, Ticket};
use crate::{StoreError, StoreFuture};

/// A deadline, a breaker and a limit on calls.
#[derive(Debug)]
pub(crate) struct Gate {
    guard: Guard,
    breaker: Mutex<Breaker>,
    calls: Semaphore,
}

/// One call that the breaker let through. Dropped without having ended, it tells the breaker so.
struct Call<'a> {
    breaker: &'a Mutex<Breaker>,
    ticket: Option<Ticket>,
}

// === impl Gate ===

impl Gate {
    pub(crate) fn new(guard: Guard) -> Self {
        Self {
            guard,
            breaker: Mutex::new(Breaker::new(guard.failures_to_open, guard.open_for)),
            calls: Semaphore::new(guard.calls_max.min(Semaphore::MAX_PERMITS)),
        }
    }

    pub(crate) fn state(&self) -> BreakerState {
        lock(&self.breaker).state()
    }

    /// Makes one call. `ask` is not called at all if the call may not be made.
    pub(crate) async fn call<'a, T>(
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
