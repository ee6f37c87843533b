//! The circuit breaker by itself: no clock, no locks, no futures. Time is an argument.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// Decides whether a call may be made, from how the calls before it ended.
///
/// ```text
///            N failures in a row                open_for has passed: one probe
///   Closed ──────────────────────▶ Open ─────────────────────────────────▶ HalfOpen
///     ▲                             ▲ ▲                                      │ │ │
///     │                             │ └── the probe failed (waits anew) ─────┘ │ │
///     │                             └──── the probe was dropped (no wait) ─────┘ │
///     └────────────────────────────────── the probe succeeded ───────────────────┘
/// ```
#[derive(Debug)]
pub(super) struct Breaker {
    failures_to_open: u32,
    open_for: Duration,
    phase: Phase,
    /// How many tickets were given to probes: tells a probe's end from that of an earlier one.
    probes: u64,
    /// How often the breaker has closed: a call that began before an outage says nothing about the
    /// time after it.
    closings: u64,
}

/// Where a breaker stands, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerState {
    /// Calls go through.
    Closed,
    /// Calls fail at once.
    Open,
    /// One call is let through to see whether the store is back; the others fail at once.
    HalfOpen,
}

/// Says which call it was when the call's end is reported.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ticket {
    Call { closings: u64 },
    Probe { number: u64 },
}

/// Why a call may not be made: the text of the failure that opened the breaker.
pub(super) type Cause = Arc<str>;

#[derive(Debug)]
enum Phase {
    Closed { failures: u32 },
    Open { probe_from: Instant, cause: Cause },
    HalfOpen { probe: u64, cause: Cause },
}

// === impl Breaker ===

impl Breaker {
    pub(super) const fn new(failures_to_open: u32, open_for: Duration) -> Self {
        Self {
            failures_to_open,
            open_for,
            phase: Phase::Closed { failures: 0 },
            probes: 0,
            closings: 0,
        }
    }

    /// May a call be made now?
    pub(super) fn admit(&mut self, now: Instant) -> Result<Ticket, Cause> {
        match &self.phase {
            Phase::Closed { .. } => Ok(Ticket::Call { closings: self.closings }),
            Phase::Open { probe_from, cause } if *probe_from <= now => {
                self.probes += 1;
                self.phase = Phase::HalfOpen { probe: self.probes, cause: Arc::clone(cause) };
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

    /// The store could not be reached, or not in time.
    pub(super) fn failed(&mut self, ticket: &Ticket, now: Instant, cause: impl FnOnce() -> Cause) {
        let to_open = self.failures_to_open;
        let opens = self.is_probe(ticket)
            || self.failures(ticket).is_some_and(|failures| {
                *failures += 1;
                *failures >= to_open
            });
        if opens {
            self.phase = Phase::Open { probe_from: now + self.open_for, cause: cause() };
        }
    }

    /// Nobody waits for the call any more, and nothing was learnt from it. Had it been the probe,
    /// the next call is: otherwise the breaker would wait for an answer that never comes.
    pub(super) fn dropped(&mut self, ticket: &Ticket, now: Instant) {
        if !self.is_probe(ticket) {
            return;
        }
        if let Phase::HalfOpen { cause, .. } = &self.phase {
            self.phase = Phase::Open { probe_from: now, cause: Arc::clone(cause) };
        }
    }

    pub(super) const fn state(&self) -> BreakerState {
        match self.phase {
            Phase::Closed { .. } => BreakerState::Closed,
            Phase::Open { .. } => BreakerState::Open,
            Phase::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    /// Is it the probe that is awaited now?
    fn is_probe(&self, ticket: &Ticket) -> bool {
        match (&self.phase, ticket) {
            (Phase::HalfOpen { probe, .. }, Ticket::Probe { number }) => probe == number,
            _ => false,
        }
    }

    /// The failures in a row, if the call counts among them.
    fn failures(&mut self, ticket: &Ticket) -> Option<&mut u32> {
        match (&mut self.phase, ticket) {
            (Phase::Closed { failures }, Ticket::Call { closings })
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
