use std::sync::Arc;

use semel_core::planted::{Bug, planted};
use semel_core::{Attempt, Fingerprint, Lease, Owner, RecordId, Timestamp};

use super::{Candidate, Holder, Joined, LeaseUse, Local, Notification, Registry};

/// The entry of an attempt, from before its claim to the end of the lease that it was granted. When a holder's entry
/// is dropped, its notification is sent: [`Notification::Changed`], unless another one was set.
#[derive(Debug)]
pub(crate) struct RegistryEntry {
    registry: Arc<Registry>,
    id: RecordId,
    fingerprint: Fingerprint,
    owner: Owner,
    holds: bool,
    notification: Notification,
}

// === impl RegistryEntry ===

impl RegistryEntry {
    pub(super) fn new(registry: &Arc<Registry>, attempt: &Attempt) -> Self {
        Self {
            registry: registry.clone(),
            id: attempt.id(),
            fingerprint: attempt.fingerprint(),
            owner: attempt.owner(),
            holds: false,
            notification: Notification::Changed,
        }
    }

    pub(crate) const fn holds(&self) -> bool {
        self.holds
    }

    /// Checks for a holder before a claim is repeated.
    pub(crate) fn check(&self) -> Result<(), Joined> {
        if self.holds {
            return Ok(());
        }
        self.registry.with(self.id, |local| {
            local.check(self.fingerprint)?;
            match local.candidate(self.owner) {
                Some(Candidate { is_adopted: true, .. }) => {
                    Err(Joined { is_same_request: true, until: Timestamp::ZERO })
                }
                _ => Ok(()),
            }
        })
    }

    /// Becomes the holder with a lease. If there is a holder already, whose lease was granted while this claim was
    /// under way, it has to [adopt](Self::adopt) the newer lease: the store has superseded the older one, and the
    /// outcome of the holder's execution must be recorded.
    pub(crate) fn hold(&mut self, lease: Lease, lease_use: LeaseUse) -> Result<Lease, Joined> {
        let (owner, holds) = (self.owner, self.holds);
        let holder = Holder { fingerprint: self.fingerprint, lease_use, until: lease.until() };
        let held = self.registry.with(self.id, |local| {
            let is_adopted = local.candidate(owner).is_some_and(|it| it.is_adopted);
            match &local.holder {
                Some(other) if !holds && !planted(Bug::ClaimsPastOwnExecution) => {
                    Err(other.joined_by(holder.fingerprint))
                }
                // The holder that continued under this lease is done with it.
                None if is_adopted => Err(holder.joined_by(holder.fingerprint)),
                _ => {
                    local.holder = Some(holder);
                    Ok(lease)
                }
            }
        })?;
        self.holds = true;
        Ok(held)
    }

    /// Becomes the holder of an execution without a lease.
    pub(crate) fn hold_unprotected(&mut self) -> Result<(), Joined> {
        self.registry.with(self.id, |local| {
            local.check(self.fingerprint)?;
            let (fingerprint, lease_use) = (self.fingerprint, LeaseUse::Execution);
            local.holder = Some(Holder { fingerprint, lease_use, until: Timestamp::ZERO });
            Ok(())
        })?;
        self.holds = true;
        Ok(())
    }

    /// Marks the lease as one that is only going to be released.
    pub(crate) fn begin_release(&self) {
        self.as_holder(|local| {
            if let Some(holder) = &mut local.holder {
                holder.lease_use = LeaseUse::Release;
            }
        });
    }

    /// Records a renewal.
    pub(crate) fn renewed(&self, until: Timestamp) {
        self.as_holder(|local| {
            if let Some(holder) = &mut local.holder {
                holder.until = until;
            }
        });
    }

    /// Continues, as the holder, under a lease that the store has granted to an attempt of this process: this one, or
    /// another. Returns whether it is such a lease.
    pub(crate) fn adopt(&self, owner: Owner, until: Timestamp) -> bool {
        let is_ours = self.as_holder(|local| {
            let is_ours = match local.candidate(owner) {
                Some(candidate) => {
                    candidate.is_adopted |= owner != self.owner;
                    true
                }
                None => false,
            };
            if let Some(holder) = local.holder.as_mut().filter(|_| is_ours) {
                holder.until = until;
            }
            is_ours
        });
        is_ours.unwrap_or(false)
    }

    /// Whether the holder has adopted the lease of this attempt.
    pub(crate) fn is_adopted(&self) -> bool {
        self.registry
            .with(self.id, |local| local.candidate(self.owner).is_some_and(|it| it.is_adopted))
    }

    /// Whether the holder has adopted the lease of this attempt, and is done.
    pub(crate) fn is_used_up(&self) -> bool {
        self.registry.with(self.id, |local| {
            local.holder.is_none() && local.candidate(self.owner).is_some_and(|it| it.is_adopted)
        })
    }

    /// Whether other attempts of this process, with the same request, may be granted a lease of the record.
    pub(crate) fn has_other_claimants(&self) -> bool {
        let is_other = |it: &Candidate| {
            it.owner != self.owner && it.fingerprint == self.fingerprint && !it.is_adopted
        };
        self.registry.with(self.id, |local| local.claimants.iter().any(is_other))
    }

    /// Sets the notification that is sent when this entry is dropped.
    pub(crate) fn publish(&mut self, notification: Notification) {
        self.notification = notification;
    }

    fn as_holder<T>(&self, act: impl FnOnce(&mut Local) -> T) -> Option<T> {
        self.holds.then(|| self.registry.with(self.id, act))
    }
}

impl Drop for RegistryEntry {
    fn drop(&mut self) {
        self.registry.with(self.id, |local| {
            if let Some(place) = local.claimants.iter().position(|it| it.owner == self.owner) {
                local.claimants.swap_remove(place);
            }
            if self.holds {
                local.leave(&self.notification);
            }
        });
    }
}
