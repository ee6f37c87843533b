//! Admission of calls to a store.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_core::RecordId;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout, timeout_at};

use super::Guard;
use super::breaker::{Breaker, BreakerState, Caller, Cause, Ticket};
use super::holders::{FIRST_FOR, Holders};
use crate::{StoreError, StoreFuture};

/// A deadline, a breaker for each shard, and a limit on calls.
#[derive(Debug)]
pub(crate) struct Gate {
    guard: Guard,
    shards: Box<[Mutex<Shard>]>,
    calls: Semaphore,
    /// Permits for holders beyond `calls`.
    reserve: Semaphore,
    /// Permits of claims that wait for holders: they are not in progress yet, and must be bounded too (I10).
    yielding: Semaphore,
    /// Notified when every holder of some shard has been answered after an outage.
    holders_done: Notify,
}

#[derive(Debug)]
struct Shard {
    breaker: Breaker,
    holders: Holders,
}

/// The kind of a verb, as the gate distinguishes them.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// Requests a lease. During an outage, and shortly after it, holders go first.
    Claim,
    /// A claim that has waited for holders for as long as it must.
    LateClaim,
    /// Renews, settles or releases a lease of this record.
    Holder(RecordId),
    /// Anything else.
    Other,
}

/// Why a call was not made.
enum Refused {
    Error(StoreError),
    /// Holders go first, until this moment at most.
    HoldersFirst(Instant),
}

/// One call that the breaker let through. If it is dropped before its end, the breaker is notified.
struct Call<'a> {
    gate: &'a Gate,
    shard: &'a Mutex<Shard>,
    kind: Kind,
    ticket: Option<Ticket>,
    /// How long it waited for holders, which counts towards its deadline.
    yielded: Duration,
    _permit: SemaphorePermit<'a>,
}

/// The number of breakers (I10). If there are more shards, some share a breaker; none shares that of the
/// whole store.
const BREAKERS: usize = 128;
/// The back-off of user probes in a long outage: the longest interval in multiples of the first.
const OPEN_TIMES: u32 = 16;
/// The reserve of holders: one permit for this many in `calls`.
const RESERVE_SHARE: usize = 8;

// === impl Gate ===

impl Gate {
    pub(crate) fn new(guard: Guard) -> Self {
        let open_for = guard.open_for..=guard.open_for * OPEN_TIMES;
        let shard = |_| {
            let breaker = Breaker::new(guard.failures_to_open, open_for.clone());
            Mutex::new(Shard { breaker, holders: Holders::new() })
        };
        let calls_max = guard.calls_max.min(Semaphore::MAX_PERMITS);
        Self {
            guard,
            shards: (0..BREAKERS).map(shard).collect(),
            calls: Semaphore::new(calls_max),
            reserve: Semaphore::new(calls_max.div_ceil(RESERVE_SHARE)),
            yielding: Semaphore::new(calls_max),
            holders_done: Notify::new(),
        }
    }

    /// The state of all shards that is furthest from closed.
    pub(crate) fn state(&self) -> BreakerState {
        let states = self.shards.iter().map(|shard| lock(shard).breaker.state());
        states.max().unwrap_or(BreakerState::Closed)
    }

    /// Whether calls to a shard go through.
    pub(crate) fn is_closed(&self, shard: usize) -> bool {
        lock(self.shard(shard)).breaker.state() == BreakerState::Closed
    }

    /// Makes one call to a shard. `verb_call` does not run if the call is refused.
    pub(crate) async fn call<'a, T>(
        &'a self,
        verb: &str,
        shard: usize,
        verb_call: impl FnOnce() -> StoreFuture<'a, T>,
    ) -> Result<T, StoreError> {
        self.call_as(Kind::Other, verb, shard, verb_call).await
    }

    /// The same for a verb of a given kind.
    pub(super) async fn call_as<'a, T>(
        &'a self,
        kind: Kind,
        verb: &str,
        shard: usize,
        verb_call: impl FnOnce() -> StoreFuture<'a, T>,
    ) -> Result<T, StoreError> {
        let call = match self.begin(kind, shard) {
            Ok(call) => call,
            Err(Refused::Error(error)) => return Err(error),
            // Boxed, being rare: the future of every call would be larger.
            Err(Refused::HoldersFirst(_)) => Box::pin(self.yield_to_holders(shard)).await?,
        };
        call.make(verb, verb_call()).await
    }

    /// Waits for the holders of a shard, and then begins the claim in any case.
    ///
    /// If the breaker opens and closes meanwhile, holders go first for longer. The claim does not wait for
    /// longer than once, since its caller has a time limit too.
    async fn yield_to_holders(&self, shard: usize) -> Result<Call<'_>, StoreError> {
        let _permit = self.yielding.try_acquire().map_err(|_| self.too_many_claims())?;
        let began = Instant::now();
        loop {
            let done = self.holders_done.notified();
            let is_late = began.elapsed() >= FIRST_FOR;
            match self.begin(if is_late { Kind::LateClaim } else { Kind::Claim }, shard) {
                Ok(mut call) => {
                    call.yielded = began.elapsed();
                    return Ok(call);
                }
                Err(Refused::Error(error)) => return Err(error),
                // Try again after either.
                Err(Refused::HoldersFirst(until)) => {
                    let _ = timeout_at(until.min(began + FIRST_FOR), done).await;
                }
            }
        }
    }

    /// Checks the health of the whole store, which moves the next probe of each shard.
    pub(crate) async fn check_health<'a, T>(
        &'a self,
        shard: usize,
        verb_call: impl FnOnce() -> StoreFuture<'a, T>,
    ) -> Result<T, StoreError> {
        // The error of a refused health check is no result for the shards.
        let permit = self.permit(Kind::Other)?;
        let shard = self.shard(shard);
        let admitted = lock(shard).breaker.admit(Caller::HealthCheck, Instant::now());
        let ticket = Some(admitted.map_err(|cause| refused(&cause))?);
        let yielded = Duration::ZERO;
        let call = Call { gate: self, shard, kind: Kind::Other, ticket, yielded, _permit: permit };
        let health = call.make("health", verb_call()).await;
        let now = Instant::now();
        self.shards
            .iter()
            .for_each(|shard| lock(shard).breaker.health_checked(health.is_ok(), now));
        health
    }

    fn begin(&self, kind: Kind, shard: usize) -> Result<Call<'_>, Refused> {
        let permit = self.permit(kind).map_err(Refused::Error)?;
        let shard = self.shard(shard);
        let ticket = Some(lock(shard).admit(kind, Instant::now())?);
        Ok(Call { gate: self, shard, kind, ticket, yielded: Duration::ZERO, _permit: permit })
    }

    /// A permit of a call. Holders have a reserve: their executions are done already, and slow claims must
    /// not keep the outcomes from being recorded.
    fn permit(&self, kind: Kind) -> Result<SemaphorePermit<'_>, StoreError> {
        let permit = match (self.calls.try_acquire(), kind) {
            (Err(_), Kind::Holder(_)) => self.reserve.try_acquire(),
            (permit, _) => permit,
        };
        permit.map_err(|_| self.too_many_calls())
    }

    fn shard(&self, shard: usize) -> &Mutex<Shard> {
        match shard.checked_sub(1) {
            None => &self.shards[0],
            Some(number) => &self.shards[1 + number % (BREAKERS - 1)],
        }
    }

    fn too_many_calls(&self) -> StoreError {
        let max = self.guard.calls_max;
        StoreError::not_asked(format!("{max} calls are in progress already, and this is the limit"))
    }

    fn too_many_claims(&self) -> StoreError {
        let max = self.guard.calls_max;
        StoreError::not_asked(format!(
            "it is back after an outage, and {max} claims wait already for the holders of leases, which is the limit"
        ))
    }
}

fn refused(cause: &Cause) -> StoreError {
    StoreError::unavailable(format!(
        "its circuit breaker is open, so no call was made; it opened because {cause}"
    ))
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    // No code panics while it holds the lock.
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Shard ===

impl Shard {
    fn admit(&mut self, kind: Kind, now: Instant) -> Result<Ticket, Refused> {
        let refuse = |cause: Cause| Refused::Error(refused(&cause));
        match kind {
            Kind::Claim => match self.holders.first_until(now) {
                Some(until) => Err(Refused::HoldersFirst(until)),
                None => self.admit_claim(now),
            },
            Kind::LateClaim => self.admit_claim(now),
            Kind::Holder(id) => self.breaker.admit(Caller::Holder, now).map_err(|cause| {
                self.holders.failed(id, now);
                refuse(cause)
            }),
            Kind::Other => self.breaker.admit(Caller::User, now).map_err(refuse),
        }
    }

    /// While there are holders, they are the probes: a claim as the probe would be decided before them. But if
    /// their probes fail repeatedly, the cause may be their own records and not the store: then one claim is
    /// the probe.
    fn admit_claim(&mut self, now: Instant) -> Result<Ticket, Refused> {
        let refuse = |cause: Cause| Refused::Error(refused(&cause));
        let caller = match self.breaker.cause() {
            Some(cause) if self.holders.any_retrying(now) => {
                if !self.holders.need_another_probe() {
                    return Err(refuse(cause));
                }
                Caller::ImmediateUser
            }
            _ => Caller::User,
        };
        let ticket = self.breaker.admit(caller, now).map_err(refuse)?;
        self.holders.reset_failed_probes();
        Ok(ticket)
    }

    fn failed(&mut self, ticket: &Ticket, kind: Kind, now: Instant) {
        if let Kind::Holder(id) = kind {
            self.holders.failed(id, now);
            if matches!(ticket, Ticket::Probe { .. }) {
                self.holders.probe_failed();
            }
        }
    }

    /// Returns whether the last holder that claims wait for was answered.
    fn answered(&mut self, ticket: &Ticket, kind: Kind, now: Instant) -> bool {
        let was_closed = self.breaker.state() == BreakerState::Closed;
        self.breaker.answered(ticket);
        self.holders.reset_failed_probes();
        let is_last = match kind {
            Kind::Holder(id) => self.holders.answered(id),
            Kind::Claim | Kind::LateClaim | Kind::Other => false,
        };
        if !was_closed && self.breaker.state() == BreakerState::Closed {
            self.holders.store_is_back(now);
        }
        is_last
    }
}

// === impl Call ===

impl Call<'_> {
    async fn make<T>(mut self, verb: &str, answer: StoreFuture<'_, T>) -> Result<T, StoreError> {
        let deadline = self.gate.guard.deadline.saturating_sub(self.yielded);
        let result = match timeout(deadline, answer).await {
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
            // There was no call, so this is neither a failure nor a success of the store.
            Err(error) if error.is_local() => {
                lock(self.shard).breaker.dropped(&ticket, Instant::now());
            }
            Err(error) if error.is_outage() => {
                // If one shard is down, all may be: callers should not wait for each in turn.
                let suspected = self.gate.state() != BreakerState::Closed;
                let (now, cause) = (Instant::now(), || Arc::from(error.to_string()));
                let mut shard = lock(self.shard);
                shard.failed(&ticket, self.kind, now);
                shard.breaker.failed(&ticket, now, suspected, cause);
            }
            _ => {
                let is_last = lock(self.shard).answered(&ticket, self.kind, Instant::now());
                if is_last {
                    self.gate.holders_done.notify_waiters();
                }
            }
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            lock(self.shard).breaker.dropped(&ticket, Instant::now());
        }
    }
}
