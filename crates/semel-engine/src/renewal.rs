use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use semel_core::{Fence, Lease, Policy};
use semel_store::{Renewed, StoreError};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::Execution;
use crate::backoff::Backoff;
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
    /// When to renew next. After a refusal: when to look for a lease that another attempt of this process has
    /// left to this one.
    due: Instant,
    is_refused: bool,
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
    /// It was refused a renewal some time ago.
    StillRefused,
}

// === impl Tenure ===

impl Tenure {
    /// Takes up a lease that was asked for at `since`.
    pub(crate) fn new(
        shared: Arc<Shared>,
        policy: Policy,
        lease: Lease,
        since: Instant,
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
                    Event::StillRefused => self.look_for_successor(),
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
            return Event::StillRefused;
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
            self.shared.rest(self.due.saturating_duration_since(Instant::now())).await;
        }
    }

    async fn renew(&self) -> Event {
        let sent = Instant::now();
        let call = self.shared.store.renew(&self.lease, self.policy.lease());
        Event::Answered(sent, self.shared.within(self.verb_timeout(), "renew", call).await)
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
                self.backoff.reset();
                self.lost.cancel();
                self.look_for_successor();
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

    fn look_for_successor(&mut self) {
        if !self.takes_successor() {
            self.due = Instant::now() + self.policy.lease() / 3;
        }
    }

    /// Goes on under a newer lease. The work goes on as it is: the fence that it was given stays the lower one.
    fn adopt(&mut self, lease: Lease, since: Instant) {
        tracing::info!(record = %lease.id().prefix(), "going on under a newer lease of this process");
        self.lease = lease;
        self.since = since;
        self.due = Instant::now();
        self.is_refused = false;
    }

    /// Whether a write that was refused as superseded can be tried again: it was superseded by a lease of this
    /// very process, which its claimant leaves to this holder as soon as it hears of it.
    pub(crate) async fn adopts_successor(&mut self) -> bool {
        let deadline = Instant::now() + self.shared.limits.settle_patience;
        let mut backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(100));
        loop {
            // Before the look: a claimant first leaves its lease, and then the registry.
            let has_others = self.presence.has_other_claimants();
            if self.takes_successor() {
                return true;
            }
            if !has_others {
                return false;
            }
            let call = self.shared.store.inspect(self.lease.id());
            let is_ours = match self.shared.within(self.verb_timeout(), "inspect", call).await {
                Ok(record) => record.is_some_and(|it| self.presence.is_other_claimant(it.owner)),
                Err(_) => Instant::now() < deadline,
            };
            if !is_ours {
                return self.takes_successor();
            }
            sleep(backoff.pause(&*self.shared.host)).await;
        }
    }

    fn takes_successor(&mut self) -> bool {
        match self.presence.take_successor() {
            Some((lease, since)) => {
                self.adopt(lease, since);
                true
            }
            None => false,
        }
    }
}
