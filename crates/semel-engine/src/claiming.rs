use std::sync::Arc;
use std::time::Duration;

use semel_core::{
    Attempt, Claim, Fingerprint, Lease, Policy, Record, RecordId, Release, State, Timestamp,
};
use semel_planted::{Bug, planted};
use semel_store::StoreError;
use tokio::time::{Instant, sleep};

use crate::backoff::Backoff;
use crate::engine::Shared;
use crate::registry::{Joined, Presence, Purpose};
use crate::renewal::Tenure;
use crate::settling::{Write, land};

/// How often a claim is sent before its caller is told that the store is down.
const CLAIM_TRIES: u32 = 3;

/// How much later than it was sent a claim may still arrive: it may wait in a connection, or its commit
/// for a disk. A look before that which finds nothing proves nothing.
const LATE_MAX: Duration = Duration::from_secs(30);

/// The same after a look that failed: in an outage a claim may wait at the store, or before it.
const LATE_AFTER_OUTAGE: Duration = Duration::from_secs(5);

/// The longest pause between two looks for an unheard lease while the store answers.
const LOOK_MAX: Duration = Duration::from_secs(5);

/// An attempt that claims, and remembers whether it may hold a lease without knowing.
pub(crate) struct Claimant {
    shared: Arc<Shared>,
    attempt: Attempt,
    policy: Policy,
    /// From the first claim on, until a lease is taken up.
    presence: Option<Presence>,
    /// When the latest claim was sent.
    sent: Option<Instant>,
    /// Until when a claim whose answer was lost may still arrive at the store, and be granted. What a later
    /// claim was answered changes nothing about that.
    late: Option<Instant>,
    /// The latest claim was not sent, since this process has the record.
    joined: bool,
}

/// The looks for unheard leases of one attempt.
pub(crate) struct Looks {
    began: Instant,
    backoff: Backoff,
}

// === impl Looks ===

impl Looks {
    pub(crate) fn begin() -> Self {
        let backoff = Backoff::new(Duration::from_millis(50), Shared::RETRY_MAX);
        Self { began: Instant::now(), backoff }
    }
}

// === impl Claimant ===

impl Claimant {
    pub(crate) fn new(shared: Arc<Shared>, attempt: Attempt, policy: Policy) -> Self {
        Self { shared, attempt, policy, presence: None, sent: None, late: None, joined: false }
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

    /// When the latest claim was sent.
    pub(crate) const fn sent(&self) -> Option<Instant> {
        self.sent
    }

    /// Whether a claim of this attempt may be granted, or have been granted, without its knowing.
    pub(crate) const fn is_in_doubt(&self) -> bool {
        self.late.is_some()
    }

    /// This attempt has executed: a lease of its own that is found is the one that it executed under.
    pub(crate) const fn end_doubt(&mut self) {
        self.late = None;
    }

    /// Takes up a lease that the latest claim was granted.
    pub(crate) fn take_up(&mut self, lease: Lease) -> Option<Tenure> {
        // Never missing: it is what the lease is held with.
        let presence = self.presence.take()?;
        // An execution without protection may have adopted it, and have claimed nothing itself.
        let since = self.sent.unwrap_or_else(Instant::now);
        let (shared, policy) = (self.shared.clone(), self.policy.clone());
        Some(Tenure::new(shared, policy, lease, since, self.is_in_doubt(), presence))
    }

    /// Registers an execution without a lease, unless this process has another one under way.
    pub(crate) fn hold_unprotected(&mut self) -> Result<(), Joined> {
        self.enter()?;
        match &mut self.presence {
            Some(presence) => presence.hold_unprotected(),
            None => Ok(()),
        }
    }

    /// Ends the registration of an execution without a lease.
    pub(crate) fn leave_unprotected(&mut self) {
        self.presence = None;
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
        let is_worth_it = self.is_in_doubt() && error.is_passing();
        if is_worth_it {
            tracing::debug!(record = %self.id().prefix(), %error, "claiming again");
        }
        is_worth_it
    }

    /// Sends the claim once, unless this process executes or settles the record: then the attempt joins.
    ///
    /// An attempt that is answered [`Claim::Execute`] is the one holder of the record in this process.
    pub(crate) async fn claim_now(&mut self) -> Result<Claim, StoreError> {
        let entered = self.enter();
        self.joined = entered.is_err();
        match entered {
            Ok(()) => self.send().await,
            Err(joined) => Box::pin(self.join(joined)).await,
        }
    }

    /// Whether an execution of this process went on under the lease of this attempt, and is over: then the store
    /// grants no further one to its owner.
    pub(crate) fn is_used_up(&self) -> bool {
        self.presence.as_ref().is_some_and(Presence::is_used_up)
    }

    /// Whether the latest claim was answered by this process, not by the store.
    pub(crate) const fn has_joined(&self) -> bool {
        self.joined
    }

    fn enter(&mut self) -> Result<(), Joined> {
        if let Some(presence) = &self.presence {
            return presence.check();
        }
        self.presence = Some(self.shared.registry.enter(&self.attempt)?);
        Ok(())
    }

    async fn send(&mut self) -> Result<Claim, StoreError> {
        let sent = Instant::now();
        self.sent = Some(sent);
        let call = self.shared.store.claim(&self.attempt, &self.policy);
        let claimed =
            self.shared.within(self.shared.limits.verb_timeout, "claim", self.id(), call).await;
        match claimed {
            // Granted, and heard of too late: another may have been granted the next lease, executed and
            // settled since. The same claim sent again tells.
            Ok(Claim::Execute(_)) if sent.elapsed() >= self.policy.lease() => {
                self.late = Some(sent + LATE_MAX);
                Err(StoreError::deadline("claim", self.policy.lease()))
            }
            Ok(Claim::Execute(lease)) => {
                if planted(Bug::GrantsToAnOwnerThatReleased) {
                    self.late = None;
                }
                Ok(self.hold(lease, sent))
            }
            Ok(claim) => Ok(claim),
            Err(error) => {
                if error.maybe_applied() {
                    self.late = Some(sent + LATE_MAX);
                }
                Err(error)
            }
        }
    }

    /// Becomes the holder, or leaves the lease to the one that this process has. Then nothing is executed under it
    /// here: it is looked for until the holder has adopted it, or handed back if the holder is done without it.
    fn hold(&mut self, lease: Lease, since: Instant) -> Claim {
        let held = match &mut self.presence {
            Some(presence) => presence.hold(lease, Purpose::Execution),
            None => Ok(lease),
        };
        let joined = match held {
            Ok(lease) => return Claim::Execute(lease),
            Err(joined) => joined,
        };
        self.late = Some(since + LATE_MAX);
        match joined {
            Joined { is_same_request: true, until } => Claim::InFlight { until },
            // The record had expired under the other request.
            Joined { .. } => Claim::Mismatch,
        }
    }

    /// The answer to an attempt whose own process executes or settles the record.
    ///
    /// The store is asked, though not for a lease: the settlement of this process may be recorded before the process
    /// hears of it, and another process may have taken over and settled. Other nodes replay that already, so that
    /// *in progress* would take back what a client has seen (I2). An execution of its own the process knows without
    /// the store. A lease that it only hands back says nothing of the record.
    async fn join(&self, joined: Joined) -> Result<Claim, StoreError> {
        let Joined { is_same_request: true, until } = joined else {
            return Ok(Claim::Mismatch);
        };
        match self.inspect().await {
            Ok(Some(Record {
                state: State::Settled(settlement), expires, fingerprint, ..
            })) if fingerprint == self.fingerprint() => Ok(Claim::Replay { settlement, expires }),
            // By now the execution may be over, and its outcome known elsewhere.
            Err(error) if !self.shared.registry.executes(self.id()) => Err(error),
            _ => Ok(Claim::InFlight { until }),
        }
    }

    /// Gives up an attempt that executed nothing, or has handed its lease back: if a claim of it was granted
    /// unheard, that lease is handed back too, so that no retry has to wait until it runs out.
    pub(crate) async fn forsake(mut self) {
        let mut looks = Looks::begin();
        while let Some(lease) = self.find_lease(&mut looks).await {
            let Some(mut tenure) = self.found(lease, Purpose::Return) else { continue };
            tracing::info!(record = %self.id().prefix(), "releasing an unheard lease");
            let _ = land(&mut tenure, &Write::Release(Release::Retry), |_| ()).await;
        }
    }

    /// Takes up a lease that was found, unless this process has a holder to leave it to.
    pub(crate) fn found(&mut self, lease: Lease, purpose: Purpose) -> Option<Tenure> {
        match self.presence.as_mut()?.hold(lease, purpose) {
            Ok(lease) => self.take_up(lease),
            Err(_) => None,
        }
    }

    /// The lease that a claim of this attempt was granted unheard, once it is found. An execution without a lease
    /// looks for those of other attempts of this process too.
    ///
    /// It is looked for until a claim can no longer arrive and the store has said so since, but not for longer
    /// than a settlement would be tried: past the retention there is nothing to find, unless a claim arrives later.
    pub(crate) async fn find_lease(&mut self, looks: &mut Looks) -> Option<Lease> {
        // So that a holder of this process that is superseded by that lease knows whose it is.
        if self.presence.is_none() && self.is_in_doubt() {
            self.presence = Some(self.shared.registry.enter_anyway(&self.attempt));
        }
        let longest = self.policy.ttl().max(LATE_MAX * 2);
        while self.may_find() && looks.began.elapsed() < longest {
            self.shared.rest(self.id(), looks.backoff.pause(&*self.shared.host)).await;
            let asked = Instant::now();
            match self.inspect().await.map(|record| record.and_then(|it| self.lease_in(&it))) {
                Ok(found) => {
                    looks.backoff.set_cap(LOOK_MAX);
                    if found.is_some() {
                        return found;
                    }
                    let is_over = self.late.is_none_or(|late| asked >= late);
                    if is_over || self.shared.closing.is_cancelled() {
                        self.late = None;
                    }
                }
                Err(error) => {
                    tracing::debug!(record = %self.id().prefix(), %error, "still in doubt");
                    looks.backoff.set_cap(Shared::RETRY_MAX);
                    let again = Instant::now() + LATE_AFTER_OUTAGE;
                    self.late = self.late.map(|late| late.max(again));
                }
            }
        }
        self.late = None;
        None
    }

    /// Whether there may be a lease to find.
    fn may_find(&self) -> bool {
        let Some(presence) = &self.presence else { return false };
        if presence.holds() {
            return self.is_in_doubt() || presence.has_other_claimants();
        }
        self.is_in_doubt() && !presence.is_adopted()
    }

    /// The lease in a record, if it is this attempt's or, for an execution without a lease, one of this process.
    fn lease_in(&self, record: &Record) -> Option<Lease> {
        let State::Leased { until } = record.state else { return None };
        let is_adopted = || {
            let presence = self.presence.as_ref();
            record.fingerprint == self.fingerprint()
                && presence.is_some_and(|presence| presence.adopt(record.owner, until))
        };
        let is_ours = record.owner == self.attempt.owner() || is_adopted();
        is_ours.then(|| leased(self.id(), record, until))
    }

    async fn inspect(&self) -> Result<Option<Record>, StoreError> {
        let call = self.shared.store.inspect(self.id());
        self.shared.within(self.shared.limits.verb_timeout, "inspect", self.id(), call).await
    }
}

/// The lease in a record, which is leased until then.
pub(crate) const fn leased(id: RecordId, record: &Record, until: Timestamp) -> Lease {
    Lease::new(id, record.fingerprint, record.fence, record.owner, until, record.expires)
}
