//! The search for a lease whose grant was not acknowledged.

use std::time::Duration;

use semel_core::{Lease, Record, State};
use tokio::time::Instant;

use super::{ClaimState, LATE_MAX};
use crate::backoff::Backoff;
use crate::context::{EngineContext, lease_in};
use crate::registry::LeaseUse;
use crate::renewal::LeaseKeeper;

/// How much longer a claim may still arrive after a read that failed: in an outage a claim may wait at the store, or
/// on the way to it.
const LATE_AFTER_OUTAGE: Duration = Duration::from_secs(5);

/// The longest pause between two reads while the store answers.
const PROBE_MAX: Duration = Duration::from_secs(5);

/// The repeated reads of a record by one attempt that is in doubt.
pub(crate) struct LeaseProbe {
    began: Instant,
    backoff: Backoff,
}

// === impl LeaseProbe ===

impl LeaseProbe {
    pub(crate) fn begin() -> Self {
        let backoff = Backoff::new(Duration::from_millis(50), EngineContext::RETRY_MAX);
        Self { began: Instant::now(), backoff }
    }
}

impl ClaimState {
    /// Holds a lease that was found, unless this process has a holder that will adopt it.
    pub(crate) fn hold_found(&mut self, lease: Lease, lease_use: LeaseUse) -> Option<LeaseKeeper> {
        match self.entry.as_mut()?.hold(lease, lease_use) {
            Ok(lease) => self.hold(lease),
            Err(_) => None,
        }
    }

    /// The lease that a claim of this attempt was granted without acknowledgement, once it is found. An execution
    /// without a lease searches for leases of other attempts of this process too.
    ///
    /// The search ends when a claim can no longer arrive and the store has answered since, or after the time for
    /// which a settlement would be tried: past the retention there is nothing to find, unless a claim arrives later.
    pub(crate) async fn find_lease(&mut self, probe: &mut LeaseProbe) -> Option<Lease> {
        // With the entry, a holder of this process that is superseded by that lease recognises it.
        if self.entry.is_none() && self.is_in_doubt() {
            self.entry = Some(self.context.registry.enter_in_doubt(&self.attempt));
        }
        let longest = self.policy.ttl().max(LATE_MAX * 2);
        while self.may_find() && probe.began.elapsed() < longest {
            self.context.rest(self.id(), probe.backoff.pause(&*self.context.host)).await;
            let asked = Instant::now();
            match self.inspect().await.map(|record| record.and_then(|it| self.own_lease_in(&it))) {
                Ok(found) => {
                    probe.backoff.set_cap(PROBE_MAX);
                    if found.is_some() {
                        return found;
                    }
                    let is_over = self.in_doubt_until.is_none_or(|until| asked >= until);
                    if is_over || self.context.closing.is_cancelled() {
                        self.in_doubt_until = None;
                    }
                }
                Err(error) => {
                    tracing::debug!(record = %self.id().prefix(), %error, "still in doubt");
                    probe.backoff.set_cap(EngineContext::RETRY_MAX);
                    let again = Instant::now() + LATE_AFTER_OUTAGE;
                    self.in_doubt_until = self.in_doubt_until.map(|until| until.max(again));
                }
            }
        }
        self.in_doubt_until = None;
        None
    }

    /// Whether there may be a lease to find.
    fn may_find(&self) -> bool {
        let Some(entry) = &self.entry else { return false };
        if entry.holds() {
            return self.is_in_doubt() || entry.has_other_claimants();
        }
        self.is_in_doubt() && !entry.is_adopted()
    }

    /// The lease in a record, if it is this attempt's or, for an execution without a lease, one of this process.
    fn own_lease_in(&self, record: &Record) -> Option<Lease> {
        let State::Leased { until } = record.state else { return None };
        let is_adopted = || {
            let entry = self.entry.as_ref();
            record.fingerprint == self.fingerprint()
                && entry.is_some_and(|entry| entry.adopt(record.owner, until))
        };
        let is_ours = record.owner == self.attempt.owner() || is_adopted();
        is_ours.then(|| lease_in(self.id(), record, until))
    }
}
