use std::sync::Arc;
use std::time::Duration;

use semel_core::planted::{Bug, planted};
use semel_core::{Attempt, Claim, Fingerprint, Lease, Outcome, Policy, Record, RecordId, State};
use semel_store::StoreError;
use tokio::task::JoinError;
use tokio::time::{Instant, sleep};

use crate::backoff::Backoff;
use crate::context::EngineContext;
use crate::execution::outcome_of;
use crate::registry::{Joined, LeaseUse, RegistryEntry};
use crate::renewal::LeaseKeeper;
use crate::{Quota, QuotaPermit};

mod admission;
mod probe;

pub(crate) use admission::NotClaimed;
pub(crate) use probe::LeaseProbe;

/// How often a claim is sent before it fails.
const CLAIM_TRIES: u32 = 3;

/// How much later than it was sent a claim may still arrive: it may wait in a connection, or its commit
/// for a disk. A read before that which finds no lease proves nothing.
const LATE_MAX: Duration = Duration::from_secs(30);

/// The claim of an attempt, and whether it may have been granted without acknowledgement.
pub(crate) struct ClaimState {
    context: Arc<EngineContext>,
    attempt: Attempt,
    policy: Policy,
    quota: Option<Quota>,
    /// The permit of the quota: held from before a claim until it has turned out to begin nothing, or until the
    /// outcome is settled.
    permit: Option<QuotaPermit>,
    /// The entry in the registry, from the first claim until a lease is held.
    entry: Option<RegistryEntry>,
    /// When the latest claim was sent.
    sent: Option<Instant>,
    /// Until when a claim whose answer was lost may still arrive at the store, and be granted. The answer to a later
    /// claim does not change that.
    in_doubt_until: Option<Instant>,
    /// The latest claim was not sent, since this process has the record.
    joined: bool,
}

// === impl ClaimState ===

impl ClaimState {
    pub(crate) fn new(
        context: Arc<EngineContext>,
        attempt: Attempt,
        policy: Policy,
        quota: Option<Quota>,
    ) -> Self {
        let (permit, entry, sent, in_doubt_until, joined) = (None, None, None, None, false);
        Self { context, attempt, policy, quota, permit, entry, sent, in_doubt_until, joined }
    }

    pub(crate) const fn context(&self) -> &Arc<EngineContext> {
        &self.context
    }

    pub(crate) const fn id(&self) -> RecordId {
        self.attempt.id()
    }

    pub(crate) const fn fingerprint(&self) -> Fingerprint {
        self.attempt.fingerprint()
    }

    pub(crate) const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The outcome of this attempt's work.
    pub(crate) fn outcome_of(&self, ended: Result<Outcome, JoinError>) -> Outcome {
        outcome_of(self.id(), ended, &self.context.lines)
    }

    /// When the latest claim was sent.
    pub(crate) const fn sent(&self) -> Option<Instant> {
        self.sent
    }

    /// Whether a claim of this attempt may be granted, or have been granted, without acknowledgement.
    pub(crate) const fn is_in_doubt(&self) -> bool {
        self.in_doubt_until.is_some()
    }

    /// Ends the doubt because this attempt has executed: a lease of its own would be the one of its execution.
    pub(crate) const fn end_doubt(&mut self) {
        self.in_doubt_until = None;
    }

    /// Holds the lease that the latest claim was granted.
    pub(crate) fn hold(&mut self, lease: Lease) -> Option<LeaseKeeper> {
        // The entry is never missing: a lease is granted to an attempt in the registry.
        let entry = self.entry.take()?;
        // An execution without protection may have adopted the lease without a claim of its own.
        let since = self.sent.unwrap_or_else(Instant::now);
        let (context, policy) = (self.context.clone(), self.policy.clone());
        Some(LeaseKeeper::new(context, policy, lease, since, self.is_in_doubt(), entry))
    }

    /// Registers an execution without a lease, unless this process has another one under way.
    pub(crate) fn hold_unprotected(&mut self) -> Result<(), Joined> {
        self.enter()?;
        match &mut self.entry {
            Some(entry) => entry.hold_unprotected(),
            None => Ok(()),
        }
    }

    /// Ends the registration of an execution without a lease.
    pub(crate) fn leave_unprotected(&mut self) {
        self.entry = None;
    }

    /// Claims. After an error that leaves the effect open, the same claim is sent again: the store
    /// recognises its owner and grants it instead of refusing it (I3, trap 13). An error that
    /// surely had no effect is returned at once, so that an outage costs no time.
    pub(crate) async fn claim_with_retries(&mut self) -> Result<Claim, NotClaimed> {
        match self.claim_once().await {
            Err(NotClaimed::Store(error)) if self.is_worth_another_try(&error) => {}
            claimed => return claimed,
        }
        // Boxed, since it is rare and large: see `AttemptTask`.
        Box::pin(self.retry_claim()).await
    }

    async fn retry_claim(&mut self) -> Result<Claim, NotClaimed> {
        let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(100));
        for _ in 2..CLAIM_TRIES {
            self.rest(&mut backoff).await;
            match self.claim_once().await {
                Err(NotClaimed::Store(error)) if self.is_worth_another_try(&error) => {}
                claimed => return claimed,
            }
        }
        self.rest(&mut backoff).await;
        self.claim_once().await
    }

    /// Pauses before the next try.
    async fn rest(&mut self, backoff: &mut Backoff) {
        sleep(backoff.pause(&*self.context.host)).await;
        if planted(Bug::ClaimRetriedWithoutOwner) {
            let (id, owner) = (self.id(), self.context.host.owner());
            self.attempt = Attempt::new(id, self.fingerprint(), owner);
        }
    }

    fn is_worth_another_try(&self, error: &StoreError) -> bool {
        let is_worth_it = self.is_in_doubt() && error.is_passing();
        if is_worth_it {
            tracing::debug!(record = %self.id().prefix(), %error, "claiming again");
        }
        is_worth_it
    }

    /// Sends the claim once, unless this process executes or settles the record: then the attempt joins.
    ///
    /// An attempt that is answered [`Claim::Execute`] is the one holder of the record in this process.
    pub(crate) async fn claim_once(&mut self) -> Result<Claim, NotClaimed> {
        let entered = self.enter();
        self.joined = entered.is_err();
        match entered {
            Ok(()) => self.send_within_quota().await,
            Err(joined) => Ok(Box::pin(self.join(joined)).await?),
        }
    }

    /// Whether an execution of this process went on under the lease of this attempt, and is over. The store then
    /// grants no further lease to this owner.
    pub(crate) fn is_used_up(&self) -> bool {
        self.entry.as_ref().is_some_and(RegistryEntry::is_used_up)
    }

    /// Whether the latest claim was answered by this process, not by the store.
    pub(crate) const fn has_joined(&self) -> bool {
        self.joined
    }

    fn enter(&mut self) -> Result<(), Joined> {
        if let Some(entry) = &self.entry {
            return entry.check();
        }
        self.entry = Some(self.context.registry.enter(&self.attempt)?);
        Ok(())
    }

    async fn send(&mut self) -> Result<Claim, StoreError> {
        let sent = Instant::now();
        self.sent = Some(sent);
        let call = self.context.store.claim(&self.attempt, &self.policy);
        let claimed =
            self.context.within(self.context.limits.verb_timeout, "claim", self.id(), call).await;
        match claimed {
            // The grant arrived too late: another attempt may have been granted the next lease, executed and
            // settled since. The same claim sent again shows that.
            Ok(Claim::Execute(_)) if sent.elapsed() >= self.policy.lease() => {
                self.in_doubt_until = Some(sent + LATE_MAX);
                Err(StoreError::deadline("claim", self.policy.lease()))
            }
            Ok(Claim::Execute(lease)) => {
                if planted(Bug::GrantsToAnOwnerThatReleased) {
                    self.in_doubt_until = None;
                }
                Ok(self.become_holder(lease, sent))
            }
            Ok(claim) => Ok(claim),
            Err(error) => {
                if error.maybe_applied() {
                    self.in_doubt_until = Some(sent + LATE_MAX);
                }
                Err(error)
            }
        }
    }

    /// Becomes the holder, or leaves the lease to the holder that this process already has. Then this attempt
    /// executes nothing under it: it probes for the lease until the holder has adopted it, and releases it if the
    /// holder ends without it.
    fn become_holder(&mut self, lease: Lease, since: Instant) -> Claim {
        let held = match &mut self.entry {
            Some(entry) => entry.hold(lease, LeaseUse::Execution),
            None => Ok(lease),
        };
        let joined = match held {
            Ok(lease) => return Claim::Execute(lease),
            Err(joined) => joined,
        };
        self.in_doubt_until = Some(since + LATE_MAX);
        match joined {
            Joined { is_same_request: true, until } => Claim::InFlight { until },
            // The record had expired under the other request.
            Joined { .. } => Claim::Mismatch,
        }
    }

    /// The answer to an attempt whose own process executes or settles the record.
    ///
    /// The store is read, without a claim: a settlement of this process may be recorded before it is acknowledged,
    /// and another process may have taken over and settled. Other nodes replay that already, so that *in progress*
    /// would contradict what a client has seen (I2). If the read fails, an execution of this process is known all
    /// the same; a lease that is only being released does not show the state of the record.
    async fn join(&self, joined: Joined) -> Result<Claim, StoreError> {
        let Joined { is_same_request: true, until } = joined else {
            return Ok(Claim::Mismatch);
        };
        match self.inspect().await {
            Ok(Some(Record {
                state: State::Settled(settlement), expires, fingerprint, ..
            })) if fingerprint == self.fingerprint() => Ok(Claim::Replay { settlement, expires }),
            // The execution may be over by now, and its outcome known elsewhere.
            Err(error) if !self.context.registry.executes(self.id()) => Err(error),
            _ => Ok(Claim::InFlight { until }),
        }
    }

    async fn inspect(&self) -> Result<Option<Record>, StoreError> {
        self.context.inspect(self.id(), self.context.limits.verb_timeout).await
    }
}
