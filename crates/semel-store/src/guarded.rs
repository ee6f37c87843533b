use std::time::Duration;

use semel_core::{Attempt, Claim, Lease, Policy, Record, RecordId, Release, Settlement};

use crate::{Health, Released, Renewed, Settled, Store, StoreFuture, Swept, Watch};

mod breaker;
mod gate;
mod holders;

pub use breaker::BreakerState;
pub(crate) use gate::Gate;
use gate::Kind;

/// Keeps a store's outage from becoming everyone's: a deadline on every verb, a circuit breaker
/// and a limit on concurrent calls (trap 14).
///
/// - A verb that takes longer than [`Guard::deadline`] is dropped, which the contract of [`Store`]
///   allows, and fails with [`StoreError::TimedOut`](crate::StoreError::TimedOut): it may have taken effect.
/// - After [`Guard::failures_to_open`] failures in a row the breaker opens (one that was waited for counts
///   once more for each [`Guard::open_for`] that it took): verbs fail at once with
///   [`StoreError::Unavailable`](crate::StoreError::Unavailable), without asking the store. After [`Guard::open_for`] one verb is
///   let through; if the store answers it, the breaker closes. In an outage that lasts, users have to be
///   that one ever more rarely, and whoever asks for the health as often as at first.
/// - Beyond [`Guard::calls_max`] verbs under way, further ones fail at once.
///
/// When the store is back, **holders go first**: while renewals, settlements and releases have failed and are tried
/// again, no claim is the verb that is let through, and once the breaker has closed, claims wait until each holder
/// has been answered, for at most a second, which counts for their deadline. A lease that ran out in the outage is its
/// holder's only until the record is claimed. If holders were let through in vain four times in a row, one claim is: a
/// record whose every write fails must not keep all others waiting.
///
/// A store may be made of [parts](Store::part) that fail each by itself, as the servers of a cluster do: each
/// has a breaker of its own, and so has the store as a whole (`sweep` and `health`).
///
/// Only an [outage](crate::StoreError::is_outage) counts as a failure. A store that declines, or answers "damaged" or
/// "set up wrongly", has answered.
#[derive(Debug)]
pub struct Guarded<S> {
    store: S,
    gate: Gate,
}

/// The limits of a [`Guarded`] store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// How long one verb may take.
    pub deadline: Duration,
    /// How many passing failures in a row open the breaker, if they come at once; zero is taken for one.
    pub failures_to_open: u32,
    /// How long the breaker stays open before one verb is let through.
    pub open_for: Duration,
    /// How many verbs may be under way at once (I10). Beyond that, renewals, settlements and releases have an eighth
    /// more. As many claims may wait for them after an outage.
    pub calls_max: usize,
}

/// The part that stands for all.
const WHOLE: usize = 0;

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
        Self { store, gate: Gate::new(guard) }
    }

    /// Where the breaker stands: the one of all parts that is furthest from closed.
    pub fn state(&self) -> BreakerState {
        self.gate.state()
    }
}

impl<S: Store> Store for Guarded<S> {
    fn claim<'a>(&'a self, attempt: &'a Attempt, policy: &'a Policy) -> StoreFuture<'a, Claim> {
        Box::pin(self.gate.call_as(
            Kind::Claim,
            "claim",
            self.store.part(attempt.id()),
            move || self.store.claim(attempt, policy),
        ))
    }

    fn recall(&self, attempt: &Attempt) -> Option<Claim> {
        // Known without asking, so it is known in an outage too.
        self.store.recall(attempt)
    }

    fn watch(&self, id: RecordId) -> Option<Watch> {
        self.store.watch(id)
    }

    fn part(&self, id: RecordId) -> usize {
        self.store.part(id)
    }

    fn renew<'a>(&'a self, lease: &'a Lease, duration: Duration) -> StoreFuture<'a, Renewed> {
        Box::pin(self.gate.call_as(
            Kind::Holder(lease.id()),
            "renew",
            self.store.part(lease.id()),
            move || self.store.renew(lease, duration),
        ))
    }

    fn settle<'a>(&'a self, lease: &'a Lease, settlement: Settlement) -> StoreFuture<'a, Settled> {
        Box::pin(self.gate.call_as(
            Kind::Holder(lease.id()),
            "settle",
            self.store.part(lease.id()),
            move || self.store.settle(lease, settlement),
        ))
    }

    fn release<'a>(&'a self, lease: &'a Lease, how: Release) -> StoreFuture<'a, Released> {
        Box::pin(self.gate.call_as(
            Kind::Holder(lease.id()),
            "release",
            self.store.part(lease.id()),
            move || self.store.release(lease, how),
        ))
    }

    fn inspect(&self, id: RecordId) -> StoreFuture<'_, Option<Record>> {
        Box::pin(self.gate.call("inspect", self.store.part(id), move || self.store.inspect(id)))
    }

    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        Box::pin(self.gate.call("sweep", WHOLE, move || self.store.sweep(limit)))
    }

    fn health(&self) -> StoreFuture<'_, Health> {
        Box::pin(self.gate.watch(WHOLE, move || self.store.health()))
    }
}

#[cfg(test)]
mod tests;
