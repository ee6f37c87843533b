//! The circuit breaker by itself: no clock, no locks, no futures. Time is an argument.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

/// Decides whether a call may be made, from how the calls before it ended.
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
    /// How long it is open at first, and at most.
    open_for: RangeInclusive<Duration>,
    phase: Phase,
    /// How many tickets were given to probes: tells a probe's end from that of an earlier one.
    probes: u64,
    /// How often the breaker has closed: a call that began before an outage says nothing about the
    /// time after it.
    closings: u64,
}

/// Where a breaker stands, for metrics; in the order of how far it is from closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BreakerState {
    /// Calls go through.
    Closed,
    /// One call is let through to see whether the store is back; the others fail at once.
    HalfOpen,
    /// Calls fail at once.
    Open,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// Somebody who needs the store now, and should not wait for what is probably in vain.
    User,
    /// The holder of a lease, which tries again and again in the background.
    Holder,
    /// Wants to know whether the store is there: the best probe there is.
    Watcher,
    /// A user that is let through at once, since the probes before say little about others.
    Relief,
}

/// Says which call it was when the call's end is reported.
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
    /// `since` moves when a look finds the store away; `opened` does not.
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

    /// May a call be made now?
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

    /// The store could not be reached, or not in time.
    ///
    /// A failure that was waited for counts for those that could have come meanwhile. Otherwise a store
    /// that is silent, and does not refuse, would make a few callers after the other wait in full. If the
    /// store is `suspected`, one such failure is enough.
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

    /// Nobody waits for the call any more, and nothing was learnt from it. Had it been the probe,
    /// the next call is: otherwise the breaker would wait for an answer that never comes.
    pub(super) fn dropped(&mut self, ticket: &Ticket, now: Instant) {
        if !self.is_probe(ticket) {
            return;
        }
        if let Phase::HalfOpen { cause, .. } = &self.phase {
            let cause = Arc::clone(cause);
            self.phase = Phase::Open { opened: now, since: now, lasts: Duration::ZERO, cause };
        }
    }

    /// A watcher has looked at the whole store. If all is well, the next call is the probe; if not, no user
    /// needs to be that soon. But it may be another part that is away, so this is not put off for ever.
    pub(super) fn watched(&mut self, well: bool, now: Instant) {
        if let Phase::Open { since, lasts, .. } = &mut self.phase {
            *since = now;
            if well {
                *lasts = Duration::ZERO;
            }
        }
    }

    /// Why calls are refused, if the breaker is not closed.
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

    /// How long after its opening this caller is the probe.
    fn pause(&self, caller: Caller, lasts: Duration) -> Duration {
        match caller {
            Caller::User => lasts,
            Caller::Relief => Duration::ZERO,
            Caller::Holder | Caller::Watcher => lasts.min(*self.open_for.start()),
        }
    }

    /// How long it will be open: twice as long after each probe, as a user may have waited for it.
    fn lasts(&self) -> Duration {
        let (first, most) = (*self.open_for.start(), *self.open_for.end());
        match self.phase {
            Phase::HalfOpen { lasted, .. } => (lasted * 2).clamp(first, most),
            Phase::Closed { .. } | Phase::Open { .. } => first,
        }
    }

    /// Is it the probe that is awaited now?
    fn is_probe(&self, ticket: &Ticket) -> bool {
        match (&self.phase, ticket) {
            (Phase::HalfOpen { probe, .. }, Ticket::Probe { number }) => probe == number,
            _ => false,
        }
    }

    /// One, and one more for each time that the breaker could have been open while the call took.
    fn weight(&self, ticket: &Ticket, now: Instant) -> u32 {
        let Ticket::Call { began, .. } = ticket else {
            return 1;
        };
        let waited = now.saturating_duration_since(*began).as_millis();
        let times = waited / self.open_for.start().as_millis().max(1);
        u32::try_from(times).unwrap_or(u32::MAX).saturating_add(1)
    }

    /// The failures in a row, if the call counts among them.
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
