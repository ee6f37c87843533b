use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use semel_core::{Fence, Lease, Policy, State};
use semel_store::{Renewed, StoreError};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::Execution;
use crate::backoff::Backoff;
use crate::claiming::leased;
use crate::engine::Shared;
use crate::registry::{News, Presence};

/// No verb gets less than this, however short the lease: a store that is merely slow must be able
/// to answer at all.
const VERB_TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// The first pause after a renewal that failed, at most.
const RETRY_FIRST: Duration = Duration::from_millis(200);

/// A lease in use: renewed at a third of its time for as long as its holder is at work (trap 17).
pub(crate) struct Tenure {
    shared: Arc<Shared>,
    policy: Policy,
    lease: Lease,
    /// The fence that the work was given.
    executed_under: Fence,
    /// When the lease was last known to begin, on this node's monotonic clock: the moment *before*
    /// the store was asked, so that the count is never longer than the store's.
    since: Instant,
    /// When to renew next. After a refusal: when to look whether an attempt of this process has the newer lease.
    due: Instant,
    is_refused: bool,
    /// A claim of this very attempt may be granted a newer lease.
    is_in_doubt: bool,
    backoff: Backoff,
    lost: CancellationToken,
    presence: Presence,
}

/// What may happen to a lease in use.
enum Event {
    /// Its time is over.
    RanOut,
    /// A renewal, sent at this moment, was answered.
    Answered(Instant, Result<Renewed, StoreError>),
    /// It was refused a renewal; this is the newer lease, if it was looked for and is this process's.
    Refused(Option<Lease>),
}

// === impl Tenure ===

impl Tenure {
    /// Takes up a lease that was asked for at `since`.
    pub(crate) fn new(
        shared: Arc<Shared>,
        policy: Policy,
        lease: Lease,
        since: Instant,
        is_in_doubt: bool,
        presence: Presence,
    ) -> Self {
        let third = policy.lease() / 3;
        Self {
            presence,
            shared,
            executed_under: lease.fence(),
            lease,
            since,
            due: since + third,
            is_refused: false,
            is_in_doubt,
            backoff: Backoff::new(
                (third / 10).min(RETRY_FIRST),
                (third / 2).min(Shared::RETRY_MAX),
            ),
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

    /// The fence that the work was given; a lease that was adopted since has a higher one.
    pub(crate) const fn executed_under(&self) -> Fence {
        self.executed_under
    }

    /// What the work is told.
    pub(crate) fn execution(&self) -> Execution {
        let lease = &self.lease;
        Execution::leased(lease.id(), lease.fence(), lease.expires(), self.lost.clone())
    }

    /// What is left to do is to hand the lease back.
    pub(crate) fn returns(&self) {
        self.presence.returns();
    }

    /// Tells those who wait in this process.
    pub(crate) fn publish(&mut self, news: News) {
        self.presence.publish(news);
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
                    Event::Refused(Some(newer)) => self.adopt(newer),
                    Event::Refused(None) => self.due = Instant::now() + self.policy.lease() / 3,
                },
            }
        }
    }

    /// What happens to the lease next. Most work ends before anything does, so there is one timer
    /// for all of it until a renewal is under way.
    async fn next_event(&self) -> Event {
        let held = !self.lost.is_cancelled();
        let runs_out = self.since + self.policy.lease();
        if held && runs_out < self.due {
            sleep_until(runs_out).await;
            return Event::RanOut;
        }
        self.until_due().await;
        if self.is_refused {
            return Event::Refused(Box::pin(self.newer_lease()).await.ok().flatten());
        }
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

    /// A renewal that failed is tried again at once when the store is back.
    async fn until_due(&self) {
        if self.backoff.is_fresh() {
            sleep_until(self.due).await;
        } else {
            self.shared
                .rest(self.lease.id(), self.due.saturating_duration_since(Instant::now()))
                .await;
        }
    }

    async fn renew(&self) -> Event {
        let sent = Instant::now();
        let call = self.shared.store.renew(&self.lease, self.policy.lease());
        Event::Answered(
            sent,
            self.shared.within(self.verb_timeout(), "renew", self.lease.id(), call).await,
        )
    }

    fn note(&mut self, sent: Instant, renewed: Result<Renewed, StoreError>) {
        let record = self.lease.id();
        match renewed {
            Ok(Renewed::Until { until, expires }) => {
                self.lease.renewed(until, expires);
                self.presence.renewed(until);
                self.since = sent;
                self.due = sent + self.policy.lease() / 3;
                self.backoff.reset();
                tracing::trace!(record = %record.prefix(), "renewed");
            }
            // Whether another lease was granted, or our own settlement had landed unheard, is for
            // the settlement to learn.
            Ok(Renewed::Refused(_)) => {
                tracing::debug!(record = %record.prefix(), "renewal refused");
                self.is_refused = true;
                self.due = Instant::now();
                self.backoff.reset();
                self.lost.cancel();
            }
            // Sooner than after the next third, and on past the end of the lease: one that ran out
            // may be renewed as long as no other has replaced it.
            Err(error) => {
                tracing::debug!(record = %record.prefix(), %error, "renewal failed");
                self.due = Instant::now() + self.backoff.pause(&*self.shared.host);
            }
        }
    }

    fn ran_out(&self) {
        tracing::warn!(record = %self.lease.id().prefix(), "the lease ran out unrenewed");
        self.lost.cancel();
    }

    /// Goes on under a newer lease. The work goes on as it is: the fence that it was given stays the lower one.
    fn adopt(&mut self, lease: Lease) {
        tracing::info!(record = %lease.id().prefix(), "going on under a newer lease of this process");
        self.lease = lease;
        self.since = Instant::now();
        self.due = self.since;
        self.is_refused = false;
    }

    /// Whether a write that was refused as superseded can be tried again: it was superseded by a lease of this
    /// very process, under which the execution goes on.
    ///
    /// As long as the store does not say whose that lease is, and it may be this process's, the outcome is not given
    /// up: the attempt that has it would execute again, or hand back what was executed.
    pub(crate) async fn adopts_newer_lease(&mut self, on_delay: impl FnOnce(&Self)) -> bool {
        let began = Instant::now();
        let mut on_delay = Some(on_delay);
        let mut backoff = Backoff::new(Duration::from_millis(5), Shared::RETRY_MAX);
        loop {
            match self.newer_lease().await {
                Ok(Some(newer)) => {
                    self.adopt(newer);
                    return true;
                }
                Ok(None) => return false,
                Err(_) if began.elapsed() >= self.policy.ttl() => return false,
                Err(_) => {}
            }
            if began.elapsed() >= self.shared.limits.settle_patience
                && let Some(on_delay) = on_delay.take()
            {
                on_delay(self);
            }
            self.shared.rest(self.lease.id(), backoff.pause(&*self.shared.host)).await;
        }
    }

    /// The lease that has superseded this one, if the store has granted it to this process.
    async fn newer_lease(&self) -> Result<Option<Lease>, StoreError> {
        if !self.is_in_doubt && !self.presence.has_other_claimants() {
            return Ok(None);
        }
        let call = self.shared.store.inspect(self.lease.id());
        let record =
            self.shared.within(self.verb_timeout(), "inspect", self.lease.id(), call).await?;
        let Some((record, until)) = record.and_then(|record| match record.state {
            State::Leased { until } => Some((record, until)),
            _ => None,
        }) else {
            return Ok(None);
        };
        let is_ours = record.fingerprint == self.lease.fingerprint()
            && self.presence.adopt(record.owner, until);
        Ok(is_ours.then(|| leased(self.lease.id(), &record, until)))
    }
}
