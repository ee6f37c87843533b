use std::time::Duration;

use metrics::{Counter, Histogram};
use semel_core::{Attempt, Claim, Lease, Policy, Record, RecordId, Release, Settlement};
use tokio::time::Instant;

use crate::{Health, Released, Renewed, Settled, Store, StoreError, StoreFuture, Swept, Watch};

pub mod metric;
mod word;

use word::{Answer, Word};

/// Measures every verb through the `metrics` facade: how long it took and what it answered. The
/// names are in [`metric`].
///
/// A verb whose future is dropped before it ends is not measured. Put inside a
/// [`Guarded`](crate::Guarded) this measures the store, and outside of it what callers see.
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

/// The handles of one verb, so that a call neither allocates nor looks anything up.
struct Meter {
    seconds: Histogram,
    answers: Vec<(Word, Counter)>,
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

impl<S: Store> Store for Metered<S> {
    fn claim<'a>(&'a self, attempt: &'a Attempt, policy: &'a Policy) -> StoreFuture<'a, Claim> {
        Box::pin(self.claim.measure(move || self.store.claim(attempt, policy)))
    }

    fn recall(&self, attempt: &Attempt) -> Option<Claim> {
        let claim = self.store.recall(attempt).map(Ok)?;
        self.claim.count(Word::of(&claim));
        claim.ok()
    }

    fn watch(&self, id: RecordId) -> Option<Watch> {
        self.store.watch(id)
    }

    fn part(&self, id: RecordId) -> usize {
        self.store.part(id)
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
        let counter = |word: &Word| {
            let counter = metrics::counter!(
                metric::ANSWERS_TOTAL,
                metric::STORE => kind,
                metric::VERB => verb,
                metric::ANSWER => word.as_str()
            );
            (*word, counter)
        };
        Self {
            seconds: metrics::histogram!(
                metric::VERB_SECONDS,
                metric::STORE => kind,
                metric::VERB => verb
            ),
            answers: T::WORDS.iter().chain(Word::ERRORS).map(counter).collect(),
        }
    }

    async fn measure<'a, T: Answer>(
        &'a self,
        ask: impl FnOnce() -> StoreFuture<'a, T>,
    ) -> Result<T, StoreError> {
        let begun = Instant::now();
        let result = ask().await;
        self.seconds.record(begun.elapsed());
        self.count(Word::of(&result));
        result
    }

    fn count(&self, word: Word) {
        let counter = self.answers.iter().find(|(known, _)| *known == word);
        debug_assert!(counter.is_some(), "{word:?} is no answer of this verb");
        if let Some((_, counter)) = counter {
            counter.increment(1);
        }
    }
}

#[cfg(test)]
mod tests;
