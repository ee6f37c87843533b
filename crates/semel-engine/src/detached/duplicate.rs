//! A duplicate that waits for the outcome of another execution.

use std::sync::Arc;
use std::time::Duration;

use semel_core::planted::{Bug, planted};
use semel_core::{Claim, Timestamp};
use tokio::time::Instant;

use super::AttemptTask;
use crate::claiming::NotClaimed;
use crate::host::Host;
use crate::registry::{Listener, Notification, Source};
use crate::waiting::{Wake, WakeSources};

impl AttemptTask {
    /// Waits for the outcome of the execution that is in flight, until `deadline`, or for its lease
    /// to become free.
    ///
    /// It polls with the attempt's own claim: if the holder released or abandoned the record, the
    /// waiter is granted the next lease. That is all it can do: it has nothing to write with
    /// (trap 8). A store that fails for a while does not end the wait, and never makes a waiter
    /// execute without protection: it knows that another execution was in flight.
    pub(super) async fn wait(
        &mut self,
        mut listener: Listener,
        mut until: Timestamp,
        deadline: Instant,
    ) -> Result<Claim, NotClaimed> {
        let context = Arc::clone(self.claim.context());
        let Some(_waiter) = context.waiters.take() else {
            return Ok(Claim::InFlight { until });
        };
        if !listener.start_waiting(context.limits.waiters_per_record_max) {
            return Ok(Claim::InFlight { until });
        }
        let began = Instant::now();
        let watch = context.store.watch(self.claim.id());
        let mut sources = WakeSources::new(listener, watch);
        let mut polls = sources.polls(&context);
        let mut poll_at = before(&*context.host, deadline, polls.pause(&*context.host));
        loop {
            // An attempt that may hold a lease without knowing still counts as running.
            if !self.claim.is_in_doubt() {
                self.slot = None;
                self.claim.leave_quota();
            }
            match sources.pause(&context, &mut self.caller, deadline, poll_at).await {
                Wake::Stop => {
                    if planted(Bug::WaiterDeletesTheClaim) {
                        self.release_anothers_lease().await;
                    }
                    return Ok(Claim::InFlight { until });
                }
                Wake::Notification(Notification::Settled {
                    fingerprint,
                    settlement,
                    expires,
                    source,
                }) if fingerprint == self.claim.fingerprint()
                    && self.is_of_this_life(began, until, expires, source) =>
                {
                    return Ok(Claim::Replay { settlement, expires });
                }
                // Soon, but not all waiters at once.
                Wake::Notification(_) | Wake::StoreEvent => {
                    poll_at = poll_at.min(Instant::now() + sources.spread(&*context.host));
                    continue;
                }
                Wake::Poll => {}
            }
            match self.poll().await {
                Ok(Some(Claim::InFlight { until })) if self.claim.is_used_up() => {
                    return Ok(Claim::InFlight { until });
                }
                Ok(Some(Claim::InFlight { until: seen })) => until = seen,
                Ok(Some(claim)) => {
                    self.share(&claim);
                    return Ok(claim);
                }
                Ok(None) => {}
                Err(error) if error.is_passing() => {}
                Err(error) => return Err(error),
            }
            polls.set_cap(sources.longest_pause(&context));
            poll_at = before(&*context.host, deadline, polls.pause(&*context.host));
        }
    }

    /// Whether a notification belongs to the life of the record that is waited for. A notification may be late, and
    /// the record may have expired since.
    ///
    /// A record outlives its leases, so an outcome that expires before the lease that was seen is of an earlier
    /// life. An attempt that joined has seen no lease in the store: only reads of the store since the wait began
    /// count.
    fn is_of_this_life(
        &self,
        began: Instant,
        until: Timestamp,
        expires: Timestamp,
        source: Source,
    ) -> bool {
        match source {
            Source::Duplicate { asked } if self.claim.has_joined() => began <= asked,
            Source::Holder if self.claim.has_joined() => false,
            Source::Duplicate { .. } | Source::Holder => until <= expires,
        }
    }

    /// Claims once, if a slot is free for the execution that this may become.
    async fn poll(&mut self) -> Result<Option<Claim>, NotClaimed> {
        if self.slot.is_none() {
            self.slot = self.claim.context().executions.take();
        }
        match self.slot {
            Some(_) => self.claim.claim_once().await.map(Some),
            None => Ok(None),
        }
    }

    /// Publishes a replay to the other waiters of this process, which need not poll for it.
    pub(super) fn share(&self, claim: &Claim) {
        if let Claim::Replay { settlement, expires } = claim {
            let (settlement, expires) = (settlement.clone(), *expires);
            let fingerprint = self.claim.fingerprint();
            let Some(asked) = self.claim.sent() else { return };
            let source = Source::Duplicate { asked };
            let notification = Notification::Settled { fingerprint, settlement, expires, source };
            self.claim.context().registry.notify(self.claim.id(), notification);
        }
    }
}

/// The time of the next poll, after `pause`. Each waiter polls once before its deadline, and not all of them at the
/// end.
fn before(host: &dyn Host, deadline: Instant, pause: Duration) -> Instant {
    let now = Instant::now();
    let left = deadline.saturating_duration_since(now);
    now + if pause < left { pause } else { host.between(left / 2, left) }
}
