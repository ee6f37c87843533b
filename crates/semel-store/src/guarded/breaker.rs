//! The circuit breaker: no clock, no locks, no futures. Time is an argument.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// Admits or refuses calls, by the results of earlier calls.
///
/// ```text
///      failures in a row, weighed               open_for has passed: one probe
///   Closed ──────────────────────▶ Open ─────────────────────────────────▶ HalfOpen
///     ▲                             ▲ ▲                                      │ │ │
///     │                             │ └── the probe failed (waits longer) ───┘ │ │
///     │                             └──── the probe was dropped (no wait) ─────┘ │
///     └────────────────────────────────── the probe succeeded ───────────────────┘
/// ```
#[derive(Debug)]
pub(super) struct Breaker {
    failures_to_open: u32,
    /// How long it is open initially, and at most.
    open_for: RangeInclusive<Duration>,
    phase: Phase,
    /// The number of probes so far: distinguishes the result of a probe from that of an earlier one.
    probes: u64,
    /// How often the breaker has closed: the result of a call that began before an outage does not count
    /// after it.
    closings: u64,
}

/// The state of a breaker, for metrics; ordered by the distance from closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BreakerState {
    /// Calls go through.
    Closed,
    /// One call is let through as the probe; the others fail at once.
    HalfOpen,
    /// Calls fail at once.
    Open,
}

/// The kind of caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// A request, which should not wait for a call that will probably fail.
    User,
    /// The holder of a lease, which retries in the background.
    Holder,
    /// A health check: the best probe, since no request waits for it.
    HealthCheck,
    /// A user that is the probe at once, since the failed probes of holders may be due to their records.
    ImmediateUser,
}

/// Identifies a call when its result is reported.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ticket {
    Call { closings: u64, began: Instant },
    Probe { number: u64 },
}

/// Why a call may not be made: the text of the failure that opened the breaker.
pub(super) type Cause = Arc<str>;

#[derive(Debug)]
enum Phase {
    Closed {
        failures: u32,
    },
    /// A failed health check moves `since`, but not `opened`.
    Open {
        opened: Instant,
        since: Instant,
        lasts: Duration,
        cause: Cause,
    },
    HalfOpen {
        probe: u64,
        lasted: Duration,
        cause: Cause,
    },
}

// === impl Breaker ===

impl Breaker {
    pub(super) const fn new(failures_to_open: u32, open_for: RangeInclusive<Duration>) -> Self {
        Self {
            failures_to_open,
            open_for,
            phase: Phase::Closed { failures: 0 },
            probes: 0,
            closings: 0,
        }
    }

    /// Admits a call, or returns why not.
    pub(super) fn admit(&mut self, caller: Caller, now: Instant) -> Result<Ticket, Cause> {
        match &self.phase {
            Phase::Closed { .. } => Ok(Ticket::Call { closings: self.closings, began: now }),
            Phase::Open { opened, since, lasts, cause }
                if *since + self.pause(caller, *lasts) <= now
                    || *opened + *self.open_for.end() <= now =>
            {
                self.probes += 1;
                let (probe, lasted, cause) = (self.probes, *lasts, Arc::clone(cause));
                self.phase = Phase::HalfOpen { probe, lasted, cause };
                Ok(Ticket::Probe { number: self.probes })
            }
            Phase::Open { cause, .. } | Phase::HalfOpen { cause, .. } => Err(Arc::clone(cause)),
        }
    }

    /// The store answered.
    pub(super) fn answered(&mut self, ticket: &Ticket) {
        if self.is_probe(ticket) {
            self.closings += 1;
            self.phase = Phase::Closed { failures: 0 };
        } else if let Some(failures) = self.failures(ticket) {
            *failures = 0;
        }
    }

    /// The store was unreachable, or did not answer in time.
    ///
    /// A slow failure counts for the failures that could have occurred meanwhile. Otherwise a store that is
    /// silent, instead of refusing connections, would delay several callers in turn by the full deadline. If
    /// the store is `suspected`, one slow failure is enough.
    pub(super) fn failed(
        &mut self,
        ticket: &Ticket,
        now: Instant,
        suspected: bool,
        cause: impl FnOnce() -> Cause,
    ) {
        let weight = self.weight(ticket, now);
        let to_open = if suspected && weight > 1 { 1 } else { self.failures_to_open };
        let opens = self.is_probe(ticket)
            || self.failures(ticket).is_some_and(|failures| {
                *failures = failures.saturating_add(weight);
                *failures >= to_open
            });
        if opens {
            let lasts = self.lasts();
            self.phase = Phase::Open { opened: now, since: now, lasts, cause: cause() };
        }
    }

    /// The call was cancelled without a result. If it was the probe, the next call is: otherwise the breaker
    /// would wait for a result that never comes.
    pub(super) fn dropped(&mut self, ticket: &Ticket, now: Instant) {
        if !self.is_probe(ticket) {
            return;
        }
        if let Phase::HalfOpen { cause, .. } = &self.phase {
            let cause = Arc::clone(cause);
            self.phase = Phase::Open { opened: now, since: now, lasts: Duration::ZERO, cause };
        }
    }

    /// The result of a health check of the whole store. On success the next call is the probe; on failure the
    /// probe of a user is postponed, but not indefinitely, since the failure may be that of another shard.
    pub(super) fn health_checked(&mut self, healthy: bool, now: Instant) {
        if let Phase::Open { since, lasts, .. } = &mut self.phase {
            *since = now;
            if healthy {
                *lasts = Duration::ZERO;
            }
        }
    }

    /// The cause of refusals, if the breaker is not closed.
    pub(super) fn cause(&self) -> Option<Cause> {
        match &self.phase {
            Phase::Closed { .. } => None,
            Phase::Open { cause, .. } | Phase::HalfOpen { cause, .. } => Some(Arc::clone(cause)),
        }
    }

    pub(super) const fn state(&self) -> BreakerState {
        match self.phase {
            Phase::Closed { .. } => BreakerState::Closed,
            Phase::Open { .. } => BreakerState::Open,
            Phase::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    /// How long after the opening a caller of this kind may be the probe.
    fn pause(&self, caller: Caller, lasts: Duration) -> Duration {
        match caller {
            Caller::User => lasts,
            Caller::ImmediateUser => Duration::ZERO,
            Caller::Holder | Caller::HealthCheck => lasts.min(*self.open_for.start()),
        }
    }

    /// How long it will be open: twice as long after each failed probe, since a user may have waited for it.
    fn lasts(&self) -> Duration {
        let (first, most) = (*self.open_for.start(), *self.open_for.end());
        match self.phase {
            Phase::HalfOpen { lasted, .. } => (lasted * 2).clamp(first, most),
            Phase::Closed { .. } | Phase::Open { .. } => first,
        }
    }

    /// Whether the call is the current probe.
    fn is_probe(&self, ticket: &Ticket) -> bool {
        match (&self.phase, ticket) {
            (Phase::HalfOpen { probe, .. }, Ticket::Probe { number }) => probe == number,
            _ => false,
        }
    }

    /// One, and one more for each [`open_for`](Self::open_for) that the call took.
    fn weight(&self, ticket: &Ticket, now: Instant) -> u32 {
        let Ticket::Call { began, .. } = ticket else {
            return 1;
        };
        let waited = now.saturating_duration_since(*began).as_millis();
        let times = waited / self.open_for.start().as_millis().max(1);
        u32::try_from(times).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// The count of failures in a row, if the result of this call counts.
    fn failures(&mut self, ticket: &Ticket) -> Option<&mut u32> {
        match (&mut self.phase, ticket) {
            (Phase::Closed { failures }, Ticket::Call { closings, .. })
                if *closings == self.closings =>
            {
                Some(failures)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
