use std::time::Duration;

use semel_core::{Attempt, Claim, Lease, Policy, Record, RecordId, Release, Settlement};

use crate::{Health, Released, Renewed, Settled, Store, StoreFuture, Swept, Watch};

mod breaker;
mod gate;
mod holders;

pub use breaker::BreakerState;
pub(crate) use gate::Gate;
use gate::Kind;

/// Contains a store's outage: a deadline on every verb, a circuit breaker and a limit on concurrent calls
/// (trap 14).
///
/// - A verb that takes longer than [`Guard::deadline`] is dropped, which the contract of [`Store`]
///   allows, and fails with [`StoreError::TimedOut`](crate::StoreError::TimedOut): it may have taken effect.
/// - After [`Guard::failures_to_open`] failures in a row the breaker opens (a slow one counts
///   once more for each [`Guard::open_for`] that it took): verbs fail at once with
///   [`StoreError::Unavailable`](crate::StoreError::Unavailable), without a call. After [`Guard::open_for`] one verb is
///   let through as the probe; if the store answers it, the breaker closes. During a long outage user
///   requests probe with back-off; health checks keep the initial interval.
/// - Beyond [`Guard::calls_max`] verbs in progress, further ones fail at once.
///
/// After an outage **holders go first**: while failed renewals, settlements and releases are being retried,
/// no claim is the probe, and once the breaker has closed, claims wait until each holder has been answered,
/// for at most a second, which counts towards their deadline. The holder of a lease that ran out during the outage can
/// settle only until the record is claimed. After four failed probes of holders in a row, one claim is let through: a
/// record whose every write fails must not block all others.
///
/// A store may have [shards](Store::shard) that fail independently, as the servers of a cluster do: each
/// has a breaker of its own, and so has the store as a whole (`sweep` and `health`).
///
/// Only an [outage](crate::StoreError::is_outage) counts as a failure. A store that declines, or reports damage or
/// a wrong setting, has answered. A [local](crate::StoreError::is_local) cause counts as neither: there was no call.
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
    /// How many outage failures in a row open the breaker, if they are immediate; zero means one.
    pub failures_to_open: u32,
    /// How long the breaker stays open before the probe.
    pub open_for: Duration,
    /// How many verbs may be in progress at once (I10). Renewals, settlements and releases have an eighth
    /// more in reserve. As many claims may wait for them after an outage.
    pub calls_max: usize,
}

/// The number of the store as a whole.
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

    /// The state of the breaker; with several shards, the state that is furthest from closed.
    pub fn state(&self) -> BreakerState {
        self.gate.state()
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: Store> Store for Guarded<S> {
    fn claim<'a>(&'a self, attempt: &'a Attempt, policy: &'a Policy) -> StoreFuture<'a, Claim> {
        Box::pin(self.gate.call_as(
            Kind::Claim,
            "claim",
            self.store.shard(attempt.id()),
            move || self.store.claim(attempt, policy),
        ))
    }

    fn cached_claim(&self, attempt: &Attempt) -> Option<Claim> {
        // No call, so it works during an outage too.
        self.store.cached_claim(attempt)
    }

    fn watch(&self, id: RecordId) -> Option<Watch> {
        self.store.watch(id)
    }

    fn shard(&self, id: RecordId) -> usize {
        self.store.shard(id)
    }

    fn renew<'a>(&'a self, lease: &'a Lease, duration: Duration) -> StoreFuture<'a, Renewed> {
        Box::pin(self.gate.call_as(
            Kind::Holder(lease.id()),
            "renew",
            self.store.shard(lease.id()),
            move || self.store.renew(lease, duration),
        ))
    }

    fn settle<'a>(&'a self, lease: &'a Lease, settlement: Settlement) -> StoreFuture<'a, Settled> {
        Box::pin(self.gate.call_as(
            Kind::Holder(lease.id()),
            "settle",
            self.store.shard(lease.id()),
            move || self.store.settle(lease, settlement),
        ))
    }

    fn release<'a>(&'a self, lease: &'a Lease, how: Release) -> StoreFuture<'a, Released> {
        Box::pin(self.gate.call_as(
            Kind::Holder(lease.id()),
            "release",
            self.store.shard(lease.id()),
            move || self.store.release(lease, how),
        ))
    }

    fn inspect(&self, id: RecordId) -> StoreFuture<'_, Option<Record>> {
        Box::pin(self.gate.call("inspect", self.store.shard(id), move || self.store.inspect(id)))
    }

    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        Box::pin(self.gate.call("sweep", WHOLE, move || self.store.sweep(limit)))
    }

    fn health(&self) -> StoreFuture<'_, Health> {
        Box::pin(self.gate.check_health(WHOLE, move || self.store.health()))
    }
}

#[cfg(test)]
mod tests;
