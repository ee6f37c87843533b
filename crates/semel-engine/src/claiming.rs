use std::sync::Arc;
use std::time::Duration;

use semel_core::{Attempt, Claim, Fingerprint, Lease, Policy, RecordId, Release, State};
use semel_planted::{Bug, planted};
use semel_store::StoreError;
use tokio::time::{Instant, sleep};

use crate::backoff::Backoff;
use crate::engine::Shared;
use crate::renewal::Tenure;
use crate::settling::{Write, land};

/// How often a claim is sent before its caller is told that the store is down.
const CLAIM_TRIES: u32 = 3;

/// How long the fate of an unheard claim is looked into, at least. Under `on_abandoned = "hold"` an
/// orphaned lease would need an operator, so it is worth some patience.
const DOUBT_MAX: Duration = Duration::from_mins(5);

/// How much later than it was sent a claim may still arrive: it may wait in a connection, or its commit
/// for a disk. Who looks earlier and finds nothing knows nothing.
const LATE_MAX: Duration = Duration::from_secs(30);

/// An attempt that claims, and remembers whether it may hold a lease without knowing.
pub(crate) struct Claimant {
    shared: Arc<Shared>,
    attempt: Attempt,
    policy: Policy,
    /// When the latest claim was sent.
    sent: Option<Instant>,
    /// May a claim whose answer was lost have been granted?
    doubt: bool,
}

// === impl Claimant ===

impl Claimant {
    pub(crate) fn new(shared: Arc<Shared>, attempt: Attempt, policy: Policy) -> Self {
        Self { shared, attempt, policy, sent: None, doubt: false }
    }

    pub(crate) const fn shared(&self) -> &Arc<Shared> {
        &self.shared
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

    /// May a claim of this attempt have been granted without its knowing?
    pub(crate) const fn is_in_doubt(&self) -> bool {
        self.doubt
    }

    /// Takes up a lease that the latest claim was granted.
    pub(crate) fn take_up(&self, lease: Lease) -> Tenure {
        // It is never missing: there is no lease without a claim.
        let since = self.sent.unwrap_or_else(Instant::now);
        Tenure::new(self.shared.clone(), self.policy.clone(), lease, since)
    }

    /// Claims. When the store does not say what it did, the same claim is sent again: the store
    /// knows its owner, so it meets itself and is granted, not refused (I3, trap 13). An error that
    /// surely had no effect is returned at once, so that an outage costs no time.
    pub(crate) async fn claim(&mut self) -> Result<Claim, StoreError> {
        match self.claim_now().await {
            Err(error) if self.is_worth_another_try(&error) => {}
            claimed => return claimed,
        }
        // Boxed, being rare and large: see `Errand`.
        Box::pin(self.claim_again()).await
    }

    async fn claim_again(&mut self) -> Result<Claim, StoreError> {
        let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(100));
        for _ in 2..CLAIM_TRIES {
            self.rest(&mut backoff).await;
            match self.claim_now().await {
                Err(error) if self.is_worth_another_try(&error) => {}
                claimed => return claimed,
            }
        }
        self.rest(&mut backoff).await;
        self.claim_now().await
    }

    /// Before the next try.
    async fn rest(&mut self, backoff: &mut Backoff) {
        sleep(backoff.pause(&*self.shared.host)).await;
        if planted(Bug::ClaimRetriedWithoutOwner) {
            let (id, owner) = (self.id(), self.shared.host.owner());
            self.attempt = Attempt::new(id, self.fingerprint(), owner);
        }
    }

    fn is_worth_another_try(&self, error: &StoreError) -> bool {
        let is_worth_it = self.doubt && error.is_passing();
        if is_worth_it {
            tracing::debug!(record = %self.id().prefix(), %error, "claiming again");
        }
        is_worth_it
    }

    /// Sends the claim once.
    pub(crate) async fn claim_now(&mut self) -> Result<Claim, StoreError> {
        self.sent = Some(Instant::now());
        let call = self.shared.store.claim(&self.attempt, &self.policy);
        let claimed = Shared::within(self.shared.limits.verb_timeout, "claim", call).await;
        match &claimed {
            Ok(_) => self.doubt = false,
            // An error that follows, and had no effect itself, does not undo the doubt.
            Err(error) => self.doubt |= error.maybe_applied(),
        }
        claimed
    }

    /// Gives up an attempt that executed nothing: if its claim was granted unheard, the lease is
    /// handed back, so that nobody has to wait until it runs out.
    pub(crate) async fn forsake(mut self) {
        if let Some(lease) = self.find_lease().await {
            tracing::info!(record = %self.id().prefix(), "releasing an unheard lease");
            let mut tenure = self.take_up(lease);
            // Whatever becomes of it: there is nobody to tell.
            let _ = land(&mut tenure, &Write::Release(Release::Retry), |_| ()).await;
        }
    }

    /// The lease that a claim of this attempt was granted unheard, if it was. Ends the doubt in any
    /// case: a store that stays away too long leaves the lease to run out.
    pub(crate) async fn find_lease(&mut self) -> Option<Lease> {
        let began = Instant::now();
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(5));
        while self.doubt && began.elapsed() < DOUBT_MAX.max(self.policy.lease()) {
            sleep(backoff.pause(&*self.shared.host)).await;
            // Looking first: a claim that never arrived must not be made now.
            match self.is_ours().await {
                Ok(true) => {
                    if let Ok(Claim::Execute(lease)) = self.claim_now().await {
                        return Some(lease);
                    }
                }
                Ok(false) => self.doubt = self.sent.is_some_and(|sent| sent.elapsed() < LATE_MAX),
                Err(error) => {
                    tracing::debug!(record = %self.id().prefix(), %error, "still in doubt");
                }
            }
        }
        self.doubt = false;
        None
    }

    async fn is_ours(&self) -> Result<bool, StoreError> {
        let call = self.shared.store.inspect(self.id());
        let record = Shared::within(self.shared.limits.verb_timeout, "inspect", call).await?;
        Ok(record.is_some_and(|record| {
            record.owner == self.attempt.owner() && matches!(record.state, State::Leased { .. })
        }))
    }
}
