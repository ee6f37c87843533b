//! What lets calls to a store through, or not.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_core::RecordId;
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout, timeout_at};

use super::Guard;
use super::breaker::{Breaker, BreakerState, Caller, Cause, Ticket};
use super::holders::{FIRST_FOR, Holders};
use crate::{StoreError, StoreFuture};

/// A deadline, a breaker for each part, and a limit on calls.
#[derive(Debug)]
pub(crate) struct Gate {
    guard: Guard,
    parts: Box<[Mutex<Part>]>,
    calls: Semaphore,
    /// For holders that find no place among all calls.
    reserve: Semaphore,
    /// Claims that let holders go first: they are not under way yet, and must not pile up either (I10).
    standing: Semaphore,
    /// Every holder of some part has been answered after an outage.
    holders_done: Notify,
}

#[derive(Debug)]
struct Part {
    breaker: Breaker,
    holders: Holders,
}

/// A verb as the gate sees it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// Asks for a lease. In an outage, and for a moment after it, holders go first.
    Claim,
    /// The same after it has stood back for as long as it has to.
    LateClaim,
    /// Renews, settles or releases a lease of this record.
    Holder(RecordId),
    /// Anything else.
    Other,
}

/// Why a call was not begun.
enum Refused {
    Because(StoreError),
    /// Holders go first, until then at most.
    HoldersFirst(Instant),
}

/// One call that the breaker let through. Dropped without having ended, it tells the breaker so.
struct Call<'a> {
    gate: &'a Gate,
    part: &'a Mutex<Part>,
    kind: Kind,
    ticket: Option<Ticket>,
    /// How long it stood back before, which counts for its deadline.
    stood: Duration,
    _permit: SemaphorePermit<'a>,
}

/// How many parts are told apart (I10). If there are more, some share a breaker; none shares that of the
/// whole.
const BREAKERS: usize = 128;
/// Users are probes so many times more rarely at last than at first, in an outage that lasts.
const OPEN_TIMES: u32 = 16;
/// One more place for so many is kept for holders.
const RESERVE_PART: usize = 8;

// === impl Gate ===

impl Gate {
    pub(crate) fn new(guard: Guard) -> Self {
        let open_for = guard.open_for..=guard.open_for * OPEN_TIMES;
        let part = |_| {
            let breaker = Breaker::new(guard.failures_to_open, open_for.clone());
            Mutex::new(Part { breaker, holders: Holders::new() })
        };
        let calls_max = guard.calls_max.min(Semaphore::MAX_PERMITS);
        Self {
            guard,
            parts: (0..BREAKERS).map(part).collect(),
            calls: Semaphore::new(calls_max),
            reserve: Semaphore::new(calls_max.div_ceil(RESERVE_PART)),
            standing: Semaphore::new(calls_max),
            holders_done: Notify::new(),
        }
    }

    /// Of all parts: the state that is furthest from closed.
    pub(crate) fn state(&self) -> BreakerState {
        let states = self.parts.iter().map(|part| lock(part).breaker.state());
        states.max().unwrap_or(BreakerState::Closed)
    }

    /// Do calls to a part go through?
    pub(crate) fn is_closed(&self, part: usize) -> bool {
        lock(self.part(part)).breaker.state() == BreakerState::Closed
    }

    /// Makes one call to a part. `ask` is not called at all if the call may not be made.
    pub(crate) async fn call<'a, T>(
        &'a self,
        verb: &str,
        part: usize,
        ask: impl FnOnce() -> StoreFuture<'a, T>,
    ) -> Result<T, StoreError> {
        self.call_as(Kind::Other, verb, part, ask).await
    }

    /// The same for a verb of which the gate knows more.
    pub(super) async fn call_as<'a, T>(
        &'a self,
        kind: Kind,
        verb: &str,
        part: usize,
        ask: impl FnOnce() -> StoreFuture<'a, T>,
    ) -> Result<T, StoreError> {
        let call = match self.begin(kind, part) {
            Ok(call) => call,
            Err(Refused::Because(error)) => return Err(error),
            // Boxed, being rare: every call would have room for it.
            Err(Refused::HoldersFirst(_)) => Box::pin(self.stand_back(part)).await?,
        };
        call.make(verb, ask()).await
    }

    /// Lets the holders of a part go first, and then begins the claim in any case.
    ///
    /// If the breaker opens and closes meanwhile, holders come first for longer. The claim does not stand back for
    /// longer than once, since its caller has a limit as well.
    async fn stand_back(&self, part: usize) -> Result<Call<'_>, StoreError> {
        let _place = self.standing.try_acquire().map_err(|_| self.too_many_claims())?;
        let began = Instant::now();
        loop {
            let done = self.holders_done.notified();
            let is_late = began.elapsed() >= FIRST_FOR;
            match self.begin(if is_late { Kind::LateClaim } else { Kind::Claim }, part) {
                Ok(mut call) => {
                    call.stood = began.elapsed();
                    return Ok(call);
                }
                Err(Refused::Because(error)) => return Err(error),
                // Either way it is looked again.
                Err(Refused::HoldersFirst(until)) => {
                    let _ = timeout_at(until.min(began + FIRST_FOR), done).await;
                }
            }
        }
    }

    /// Asks for the health of all, from which something follows for each part.
    pub(crate) async fn watch<'a, T>(
        &'a self,
        part: usize,
        ask: impl FnOnce() -> StoreFuture<'a, T>,
    ) -> Result<T, StoreError> {
        // A watcher that is not let through has seen nothing.
        let permit = self.permit(Kind::Other)?;
        let part = self.part(part);
        let admitted = lock(part).breaker.admit(Caller::Watcher, Instant::now());
        let ticket = Some(admitted.map_err(|cause| refused(&cause))?);
        let stood = Duration::ZERO;
        let call = Call { gate: self, part, kind: Kind::Other, ticket, stood, _permit: permit };
        let health = call.make("health", ask()).await;
        let now = Instant::now();
        self.parts.iter().for_each(|part| lock(part).breaker.watched(health.is_ok(), now));
        health
    }

    fn begin(&self, kind: Kind, part: usize) -> Result<Call<'_>, Refused> {
        let permit = self.permit(kind).map_err(Refused::Because)?;
        let part = self.part(part);
        let ticket = Some(lock(part).admit(kind, Instant::now())?);
        Ok(Call { gate: self, part, kind, ticket, stood: Duration::ZERO, _permit: permit })
    }

    /// A place among the calls under way. Holders have a few more: what they wait for is done already, and claims that
    /// are slow must not keep it from being recorded.
    fn permit(&self, kind: Kind) -> Result<SemaphorePermit<'_>, StoreError> {
        let permit = match (self.calls.try_acquire(), kind) {
            (Err(_), Kind::Holder(_)) => self.reserve.try_acquire(),
            (permit, _) => permit,
        };
        permit.map_err(|_| self.too_many_calls())
    }

    fn part(&self, part: usize) -> &Mutex<Part> {
        match part.checked_sub(1) {
            None => &self.parts[0],
            Some(number) => &self.parts[1 + number % (BREAKERS - 1)],
        }
    }

    fn too_many_calls(&self) -> StoreError {
        let max = self.guard.calls_max;
        StoreError::unavailable(format!(
            "{max} calls are under way already, and this is the limit; nothing was asked of it"
        ))
    }

    fn too_many_claims(&self) -> StoreError {
        let max = self.guard.calls_max;
        StoreError::unavailable(format!(
            "it is back after an outage, and {max} claims wait already for those that hold leases, which is the \
             limit; nothing was asked of it"
        ))
    }
}

fn refused(cause: &Cause) -> StoreError {
    StoreError::unavailable(format!(
        "its circuit breaker is open, so nothing was asked of it; it opened because {cause}"
    ))
}

fn lock(part: &Mutex<Part>) -> MutexGuard<'_, Part> {
    // No code panics while it holds the lock.
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

// === impl Part ===

impl Part {
    fn admit(&mut self, kind: Kind, now: Instant) -> Result<Ticket, Refused> {
        let because = |cause: Cause| Refused::Because(refused(&cause));
        match kind {
            Kind::Claim => match self.holders.first_until(now) {
                Some(until) => Err(Refused::HoldersFirst(until)),
                None => self.admit_claim(now),
            },
            Kind::LateClaim => self.admit_claim(now),
            Kind::Holder(id) => self.breaker.admit(Caller::Holder, now).map_err(|cause| {
                self.holders.failed(id, now);
                because(cause)
            }),
            Kind::Other => self.breaker.admit(Caller::User, now).map_err(because),
        }
    }

    /// Holders find out themselves whether the store is back: a claim that did would be decided before them. But if
    /// they try in vain for a while, it may be their own records that are in trouble, and not the store: then one
    /// claim is let through to see.
    fn admit_claim(&mut self, now: Instant) -> Result<Ticket, Refused> {
        let because = |cause: Cause| Refused::Because(refused(&cause));
        let caller = match self.breaker.cause() {
            Some(cause) if self.holders.are_there(now) => {
                if !self.holders.try_in_vain() {
                    return Err(because(cause));
                }
                Caller::Relief
            }
            _ => Caller::User,
        };
        let ticket = self.breaker.admit(caller, now).map_err(because)?;
        self.holders.made_way();
        Ok(ticket)
    }

    fn failed(&mut self, ticket: &Ticket, kind: Kind, now: Instant) {
        if let Kind::Holder(id) = kind {
            self.holders.failed(id, now);
            if matches!(ticket, Ticket::Probe { .. }) {
                self.holders.tried_in_vain();
            }
        }
    }

    /// Returns whether the last holder that claims stand back for was answered.
    fn answered(&mut self, ticket: &Ticket, kind: Kind, now: Instant) -> bool {
        let was_closed = self.breaker.state() == BreakerState::Closed;
        self.breaker.answered(ticket);
        self.holders.made_way();
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
    async fn make<T>(mut self, verb: &str, asked: StoreFuture<'_, T>) -> Result<T, StoreError> {
        let deadline = self.gate.guard.deadline.saturating_sub(self.stood);
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
            Err(error) if error.is_outage() => {
                // Where one part is gone, all may be: no caller should have to wait for each in turn.
                let suspected = self.gate.state() != BreakerState::Closed;
                let (now, cause) = (Instant::now(), || Arc::from(error.to_string()));
                let mut part = lock(self.part);
                part.failed(&ticket, self.kind, now);
                part.breaker.failed(&ticket, now, suspected, cause);
            }
            _ => {
                let is_last = lock(self.part).answered(&ticket, self.kind, Instant::now());
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
            lock(self.part).breaker.dropped(&ticket, Instant::now());
        }
    }
}
