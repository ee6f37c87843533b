use std::time::Duration;

use metrics::{Counter, Histogram};
use semel_core::{Attempt, Claim, Lease, Policy, Record, RecordId, Release, Settlement};
use tokio::time::Instant;

use crate::{Health, Released, Renewed, Settled, Store, StoreError, StoreFuture, Swept, Watch};

mod label;
pub mod metric;

use label::{Answer, Label};

/// Measures every verb through the `metrics` facade: its duration and its answer. The
/// names are in [`metric`].
///
/// A verb whose future is dropped before it ends is not measured. Put inside a
/// [`Guarded`](crate::Guarded) this measures the store, and outside of it the view of callers.
pub struct Metered<S> {
    store: S,
    claim: Meter,
    renew: Meter,
    settle: Meter,
    release: Meter,
    inspect: Meter,
    sweep: Meter,
    health: Meter,
}

/// The handles of one verb, so that a call needs neither an allocation nor a registry lookup.
struct Meter {
    seconds: Histogram,
    answers: Vec<(Label, Counter)>,
}

// === impl Metered ===

impl<S: Store> Metered<S> {
    /// Measures `store`, whose kind becomes the label [`metric::STORE`]. The recorder must have been
    /// installed before.
    pub fn new(store: S, kind: &'static str) -> Self {
        Self {
            store,
            claim: Meter::new::<Claim>(kind, "claim"),
            renew: Meter::new::<Renewed>(kind, "renew"),
            settle: Meter::new::<Settled>(kind, "settle"),
            release: Meter::new::<Released>(kind, "release"),
            inspect: Meter::new::<Option<Record>>(kind, "inspect"),
            sweep: Meter::new::<Swept>(kind, "sweep"),
            health: Meter::new::<Health>(kind, "health"),
        }
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: Store> Store for Metered<S> {
    fn claim<'a>(&'a self, attempt: &'a Attempt, policy: &'a Policy) -> StoreFuture<'a, Claim> {
        Box::pin(self.claim.measure(move || self.store.claim(attempt, policy)))
    }

    fn cached_claim(&self, attempt: &Attempt) -> Option<Claim> {
        let claim = self.store.cached_claim(attempt).map(Ok)?;
        self.claim.count(Label::of(&claim));
        claim.ok()
    }

    fn watch(&self, id: RecordId) -> Option<Watch> {
        self.store.watch(id)
    }

    fn shard(&self, id: RecordId) -> usize {
        self.store.shard(id)
    }

    fn renew<'a>(&'a self, lease: &'a Lease, duration: Duration) -> StoreFuture<'a, Renewed> {
        Box::pin(self.renew.measure(move || self.store.renew(lease, duration)))
    }

    fn settle<'a>(&'a self, lease: &'a Lease, settlement: Settlement) -> StoreFuture<'a, Settled> {
        Box::pin(self.settle.measure(move || self.store.settle(lease, settlement)))
    }

    fn release<'a>(&'a self, lease: &'a Lease, how: Release) -> StoreFuture<'a, Released> {
        Box::pin(self.release.measure(move || self.store.release(lease, how)))
    }

    fn inspect(&self, id: RecordId) -> StoreFuture<'_, Option<Record>> {
        Box::pin(self.inspect.measure(move || self.store.inspect(id)))
    }

    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        Box::pin(self.sweep.measure(move || self.store.sweep(limit)))
    }

    fn health(&self) -> StoreFuture<'_, Health> {
        Box::pin(self.health.measure(move || self.store.health()))
    }
}

// === impl Meter ===

impl Meter {
    fn new<T: Answer>(kind: &'static str, verb: &'static str) -> Self {
        let counter = |label: &Label| {
            let counter = metrics::counter!(
                metric::ANSWERS_TOTAL,
                metric::STORE => kind,
                metric::VERB => verb,
                metric::ANSWER => label.as_str()
            );
            (*label, counter)
        };
        Self {
            seconds: metrics::histogram!(
                metric::VERB_SECONDS,
                metric::STORE => kind,
                metric::VERB => verb
            ),
            answers: T::LABELS.iter().chain(Label::ERRORS).map(counter).collect(),
        }
    }

    async fn measure<'a, T: Answer>(
        &'a self,
        ask: impl FnOnce() -> StoreFuture<'a, T>,
    ) -> Result<T, StoreError> {
        let begun = Instant::now();
        let result = ask().await;
        self.seconds.record(begun.elapsed());
        self.count(Label::of(&result));
        result
    }

    fn count(&self, label: Label) {
        let counter = self.answers.iter().find(|(known, _)| *known == label);
        debug_assert!(counter.is_some(), "{label:?} is no answer of this verb");
        if let Some((_, counter)) = counter {
            counter.increment(1);
        }
    }
}

#[cfg(test)]
mod tests;
