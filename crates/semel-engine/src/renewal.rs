use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use semel_core::{Fence, Lease, Policy, State};
use semel_store::{Renewed, StoreError};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::Execution;
use crate::backoff::Backoff;
use crate::context::{EngineContext, lease_in};
use crate::registry::{Notification, RegistryEntry};

/// The shortest timeout of a verb, however short the lease: a store that is merely slow must be able
/// to answer at all.
const VERB_TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// The upper limit of the first pause after a renewal that failed.
const RETRY_FIRST: Duration = Duration::from_millis(200);

/// Keeps a lease alive: renews it at a third of its time until its holder is done (trap 17).
pub(crate) struct LeaseKeeper {
    context: Arc<EngineContext>,
    policy: Policy,
    lease: Lease,
    /// The fence that was passed to the work.
    executed_under: Fence,
    /// When the lease was last known to begin, on this node's monotonic clock: the moment *before*
    /// the store was asked, so that the count is never longer than the store's.
    since: Instant,
    /// When to renew next. After a refusal: when to check whether an attempt of this process has the newer lease.
    due: Instant,
    is_refused: bool,
    /// Whether a claim of the same attempt may be granted a newer lease.
    is_in_doubt: bool,
    backoff: Backoff,
    lost: CancellationToken,
    entry: RegistryEntry,
}

/// An event of a lease that is kept.
enum Event {
    /// The lease ran out.
    RanOut,
    /// A renewal, sent at this moment, was answered.
    Answered(Instant, Result<Renewed, StoreError>),
    /// A renewal was refused before; this is the newer lease, if this process has it.
    Refused(Option<Lease>),
}

// === impl LeaseKeeper ===

impl LeaseKeeper {
    /// Keeps a lease that was requested at `since`.
    pub(crate) fn new(
        context: Arc<EngineContext>,
        policy: Policy,
        lease: Lease,
        since: Instant,
        is_in_doubt: bool,
        entry: RegistryEntry,
    ) -> Self {
        let third = policy.lease() / 3;
        Self {
            entry,
            context,
            executed_under: lease.fence(),
            lease,
            since,
            due: since + third,
            is_refused: false,
            is_in_doubt,
            backoff: Backoff::new(
                (third / 10).min(RETRY_FIRST),
                (third / 2).min(EngineContext::RETRY_MAX),
            ),
            lost: CancellationToken::new(),
            policy,
        }
    }

    pub(crate) const fn context(&self) -> &Arc<EngineContext> {
        &self.context
    }

    pub(crate) const fn policy(&self) -> &Policy {
        &self.policy
    }

    pub(crate) const fn lease(&self) -> &Lease {
        &self.lease
    }

    /// The fence that was passed to the work; a lease that was adopted since has a higher one.
    pub(crate) const fn executed_under(&self) -> Fence {
        self.executed_under
    }

    /// The handle for the work.
    pub(crate) fn execution(&self) -> Execution {
        let lease = &self.lease;
        Execution::leased(lease.id(), lease.fence(), lease.expires(), self.lost.clone())
    }

    /// Marks the lease as one that is only going to be released.
    pub(crate) fn begin_release(&self) {
        self.entry.begin_release();
    }

    /// Sets the notification that the waiters of this process get at the end.
    pub(crate) fn publish(&mut self, notification: Notification) {
        self.entry.publish(notification);
    }

    /// How long one verb may take, so that a hanging one leaves time for a renewal.
    pub(crate) fn verb_timeout(&self) -> Duration {
        let third = self.policy.lease() / 3;
        self.context.limits.verb_timeout.min(third.max(VERB_TIMEOUT_MIN))
    }

    /// Waits for `job` while keeping the lease alive. Returns at once when the job ends, also while
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

    /// The next event of the lease. Most work ends before there is one, so there is a single timer
    /// until a renewal is under way.
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
        // Boxed, since it is rare and large: see `AttemptTask`.
        Box::pin(async {
            tokio::select! {
                biased;
                () = sleep_until(runs_out), if held => Event::RanOut,
                event = self.renew() => event,
            }
        })
        .await
    }

    /// Waits until the renewal is due. After a failed one the wait ends when the store is reachable again.
    async fn until_due(&self) {
        if self.backoff.is_fresh() {
            sleep_until(self.due).await;
        } else {
            self.context
                .rest(self.lease.id(), self.due.saturating_duration_since(Instant::now()))
                .await;
        }
    }

    async fn renew(&self) -> Event {
        let sent = Instant::now();
        let call = self.context.store.renew(&self.lease, self.policy.lease());
        Event::Answered(
            sent,
            self.context.within(self.verb_timeout(), "renew", self.lease.id(), call).await,
        )
    }

    fn note(&mut self, sent: Instant, renewed: Result<Renewed, StoreError>) {
        let record = self.lease.id();
        match renewed {
            Ok(Renewed::Until { until, expires }) => {
                self.lease.renewed(until, expires);
                self.entry.renewed(until);
                self.since = sent;
                self.due = sent + self.policy.lease() / 3;
                self.backoff.reset();
                tracing::trace!(record = %record.prefix(), "renewed");
            }
            // Another lease was granted, or our own settlement succeeded without acknowledgement. The
            // next write of the settlement shows which.
            Ok(Renewed::Refused(_)) => {
                tracing::debug!(record = %record.prefix(), "renewal refused");
                self.is_refused = true;
                self.due = Instant::now();
                self.backoff.reset();
                self.lost.cancel();
            }
            // Retried sooner than after the next third, also past the end of the lease: one that ran out
            // may be renewed until another has replaced it.
            Err(error) => {
                tracing::debug!(record = %record.prefix(), %error, "renewal failed");
                self.due = Instant::now() + self.backoff.pause(&*self.context.host);
            }
        }
    }

    fn ran_out(&self) {
        self.context.lines.ran_out.line(|left_out| {
            let record = self.lease.id().prefix();
            tracing::warn!(record, left_out, "the lease ran out unrenewed");
        });
        self.lost.cancel();
    }

    /// Continues under a newer lease. The work continues with the lower fence that was passed to it.
    fn adopt(&mut self, lease: Lease) {
        self.context.lines.adopted.line(|left_out| {
            let record = lease.id().prefix();
            tracing::info!(record, left_out, "going on under a newer lease of this process");
        });
        self.lease = lease;
        self.since = Instant::now();
        self.due = self.since;
        self.is_refused = false;
    }

    /// Whether a write that was refused as superseded can be tried again, since this process has the newer lease and
    /// the execution continues under it.
    ///
    /// While the owner of that lease is unknown, and may be this process, the outcome is not given up: the attempt
    /// that has the lease would execute again, or release it as if nothing had been executed.
    pub(crate) async fn adopts_newer_lease(&mut self, on_delay: impl FnOnce(&Self)) -> bool {
        let began = Instant::now();
        let mut on_delay = Some(on_delay);
        let mut backoff = Backoff::new(Duration::from_millis(5), EngineContext::RETRY_MAX);
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
            if began.elapsed() >= self.context.limits.settle_timeout
                && let Some(on_delay) = on_delay.take()
            {
                on_delay(self);
            }
            self.context.rest(self.lease.id(), backoff.pause(&*self.context.host)).await;
        }
    }

    /// The lease that has superseded this one, if it was granted to this process.
    async fn newer_lease(&self) -> Result<Option<Lease>, StoreError> {
        if !self.is_in_doubt && !self.entry.has_other_claimants() {
            return Ok(None);
        }
        let record = self.context.inspect(self.lease.id(), self.verb_timeout()).await?;
        let Some((record, until)) = record.and_then(|record| match record.state {
            State::Leased { until } => Some((record, until)),
            _ => None,
        }) else {
            return Ok(None);
        };
        let is_ours =
            record.fingerprint == self.lease.fingerprint() && self.entry.adopt(record.owner, until);
        Ok(is_ours.then(|| lease_in(self.lease.id(), &record, until)))
    }
}
