use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use semel_core::{Lease, Policy};
use semel_store::{Renewed, StoreError};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::Execution;
use crate::backoff::Backoff;
use crate::engine::Shared;
use crate::registry::{Announcer, News};

/// No verb gets less than this, however short the lease: a store that is merely slow must be able
/// to answer at all.
const VERB_TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// A lease in use: renewed at a third of its time for as long as its holder is at work (trap 17).
pub(crate) struct Tenure {
    shared: Arc<Shared>,
    policy: Policy,
    lease: Lease,
    /// When the lease was last known to begin, on this node's monotonic clock: the moment *before*
    /// the store was asked, so that the count is never longer than the store's.
    since: Instant,
    /// When to renew next; never again after a refusal.
    due: Option<Instant>,
    backoff: Backoff,
    lost: CancellationToken,
    announcer: Announcer,
}

/// What may happen to a lease in use.
enum Event {
    /// Its time is over.
    RanOut,
    /// A renewal, sent at this moment, was answered.
    Answered(Instant, Result<Renewed, StoreError>),
}

// === impl Tenure ===

impl Tenure {
    /// Takes up a lease that was asked for at `since`.
    pub(crate) fn new(shared: Arc<Shared>, policy: Policy, lease: Lease, since: Instant) -> Self {
        let third = policy.lease() / 3;
        Self {
            announcer: shared.registry.announce(lease.id()),
            shared,
            lease,
            since,
            due: Some(since + third),
            backoff: Backoff::new(third / 10, third / 2),
            lost: CancellationToken::new(),
            policy,
        }
    }

    pub(crate) const fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) const fn policy(&self) -> &Policy {
        &self.policy
    }

    pub(crate) const fn lease(&self) -> &Lease {
        &self.lease
    }

    /// What the work is told.
    pub(crate) fn execution(&self) -> Execution {
        let lease = &self.lease;
        Execution::leased(lease.id(), lease.fence(), lease.expires(), self.lost.clone())
    }

    /// Tells those who wait in this process.
    pub(crate) fn publish(&mut self, news: News) {
        self.announcer.publish(news);
    }

    /// How long one verb may take, so that a hanging one leaves time for a renewal.
    pub(crate) fn verb_timeout(&self) -> Duration {
        let third = self.policy.lease() / 3;
        self.shared.limits.verb_timeout.min(third.max(VERB_TIMEOUT_MIN))
    }

    /// Waits for `job` while keeping the lease alive. The job's end is noticed at once, also while
    /// a renewal hangs.
    pub(crate) async fn keep_while<T>(&mut self, job: impl Future<Output = T>) -> T {
        let mut job = pin!(job);
        loop {
            tokio::select! {
                biased;
                done = &mut job => return done,
                event = self.next_event() => match event {
                    Event::RanOut => self.ran_out(),
                    Event::Answered(sent, renewed) => self.note(sent, renewed),
                },
            }
        }
    }

    /// What happens to the lease next. Most work ends before anything does, so there is one timer
    /// for all of it until a renewal is under way.
    async fn next_event(&self) -> Event {
        let Some(due) = self.due else {
            return std::future::pending().await;
        };
        let held = !self.lost.is_cancelled();
        let runs_out = self.since + self.policy.lease();
        if held && runs_out < due {
            sleep_until(runs_out).await;
            return Event::RanOut;
        }
        sleep_until(due).await;
        // Boxed, being rare and large: see `Errand`.
        Box::pin(async {
            tokio::select! {
                biased;
                () = sleep_until(runs_out), if held => Event::RanOut,
                event = self.renew() => event,
            }
        })
        .await
    }

    async fn renew(&self) -> Event {
        let sent = Instant::now();
        let call = self.shared.store.renew(&self.lease, self.policy.lease());
        Event::Answered(sent, Shared::within(self.verb_timeout(), "renew", call).await)
    }

    fn note(&mut self, sent: Instant, renewed: Result<Renewed, StoreError>) {
        let record = self.lease.id();
        match renewed {
            Ok(Renewed::Until { until, expires }) => {
                self.lease.renewed(until, expires);
                self.since = sent;
                self.due = Some(sent + self.policy.lease() / 3);
                self.backoff.reset();
                tracing::trace!(record = %record.prefix(), "renewed");
            }
            // Whether another lease was granted, or our own settlement had landed unheard, is for
            // the settlement to learn.
            Ok(Renewed::Refused(_)) => {
                tracing::debug!(record = %record.prefix(), "renewal refused");
                self.due = None;
                self.lost.cancel();
            }
            // Sooner than after the next third, and on past the end of the lease: one that ran out
            // may be renewed as long as nobody replaced it.
            Err(error) => {
                tracing::debug!(record = %record.prefix(), %error, "renewal failed");
                self.due = Some(Instant::now() + self.backoff.pause(&*self.shared.host));
            }
        }
    }

    fn ran_out(&self) {
        tracing::warn!(record = %self.lease.id().prefix(), "the lease ran out unrenewed");
        self.lost.cancel();
    }
}
