use std::sync::Arc;

use semel_core::{Attempt, Fingerprint, Lease, Owner, RecordId, Timestamp};
use semel_planted::{Bug, planted};
use tokio::time::Instant;

use super::{Holder, Joined, News, Registry};

/// An attempt in the registry, from before its claim to the end of what it was granted. A holder publishes its
/// news when this is dropped; without any, it says to look again.
#[derive(Debug)]
pub(crate) struct Presence {
    registry: Arc<Registry>,
    id: RecordId,
    fingerprint: Fingerprint,
    owner: Owner,
    holds: bool,
    news: News,
}

// === impl Presence ===

impl Presence {
    pub(super) fn new(registry: &Arc<Registry>, attempt: &Attempt) -> Self {
        Self {
            registry: registry.clone(),
            id: attempt.id(),
            fingerprint: attempt.fingerprint(),
            owner: attempt.owner(),
            holds: false,
            news: News::LookAgain,
        }
    }

    /// Looks again before a claim is repeated.
    pub(crate) fn check(&self) -> Result<(), Joined> {
        if self.holds {
            return Ok(());
        }
        self.registry.with(self.id, |local| local.check(self.fingerprint))
    }

    /// Becomes the holder with a lease that was asked for at `since`. If there is one already, which was
    /// granted its own while this claim was under way, the lease is left to it: the store has superseded the
    /// older lease, and what the holder executes must be recorded under the newer one.
    pub(crate) fn hold(&mut self, lease: Lease, since: Instant) -> Result<Lease, Joined> {
        let (fingerprint, until) = (self.fingerprint, lease.until());
        let holds = self.holds;
        let held = self.registry.with(self.id, |local| match &mut local.holder {
            Some(holder) if !holds && !planted(Bug::ClaimsPastOwnExecution) => {
                let joined = holder.joined_by(fingerprint);
                if joined.is_same_request {
                    holder.successor = Some((lease, since));
                }
                Err(joined)
            }
            _ => {
                local.holder = Some(Holder::new(fingerprint, until));
                Ok(lease)
            }
        })?;
        self.holds = true;
        Ok(held)
    }

    /// Becomes the holder of an execution without a lease.
    pub(crate) fn hold_unprotected(&mut self) -> Result<(), Joined> {
        self.registry.with(self.id, |local| {
            local.check(self.fingerprint)?;
            local.holder = Some(Holder::new(self.fingerprint, Timestamp::ZERO));
            Ok(())
        })?;
        self.holds = true;
        Ok(())
    }

    /// Takes note of a renewal.
    pub(crate) fn renewed(&self, until: Timestamp) {
        self.as_holder(|holder| holder.until = until);
    }

    /// The lease that another attempt of this process was granted and left to this one.
    pub(crate) fn take_successor(&self) -> Option<(Lease, Instant)> {
        self.as_holder(|holder| {
            let successor = holder.successor.take()?;
            holder.until = successor.0.until();
            Some(successor)
        })
        .flatten()
    }

    /// Ends an execution without a lease, unless another attempt of this process was granted one and has left it
    /// to this execution: then its outcome is to be recorded under that.
    pub(crate) fn leave_or_succeed(mut self) -> Option<(Self, Lease, Instant)> {
        if !self.holds {
            return None;
        }
        let successor = self.registry.with(self.id, |local| {
            let successor = local.holder.as_mut().and_then(|holder| holder.successor.take());
            if successor.is_none() {
                self.holds = false;
                local.leave(&self.news);
            }
            successor
        });
        successor.map(|(lease, since)| (self, lease, since))
    }

    /// Whether other attempts of this process may be granted a lease of the record.
    pub(crate) fn has_other_claimants(&self) -> bool {
        self.registry.with(self.id, |local| local.claimants.iter().any(|it| *it != self.owner))
    }

    /// Whether `owner` is such an attempt.
    pub(crate) fn is_other_claimant(&self, owner: Owner) -> bool {
        let is_there = self.registry.with(self.id, |local| local.claimants.contains(&owner));
        is_there && owner != self.owner
    }

    /// Takes note of what to publish when the execution ends, which is now.
    pub(crate) fn publish(&mut self, news: News) {
        self.news = news;
    }

    fn as_holder<T>(&self, act: impl FnOnce(&mut Holder) -> T) -> Option<T> {
        if !self.holds {
            return None;
        }
        self.registry.with(self.id, |local| local.holder.as_mut().map(act))
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.registry.with(self.id, |local| {
            if let Some(place) = local.claimants.iter().position(|owner| *owner == self.owner) {
                local.claimants.swap_remove(place);
            }
            if self.holds {
                local.leave(&self.news);
            }
        });
    }
}
