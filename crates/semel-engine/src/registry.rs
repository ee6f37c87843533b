//! The records in use by this process: the execution or settlement under way, the attempts that claim the record,
//! and the duplicates that wait for it.
//!
//! The store decides between processes. Within one process the registry does: an attempt never claims past an
//! execution or settlement of its own process, however long an outage lasts and whatever the store answers about
//! the lease by then. A notification carries only what the store has acknowledged; a waiter that misses it gets
//! the same result by polling.

use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use semel_core::planted::{Bug, planted};
use semel_core::{Attempt, Fingerprint, Owner, RecordId, Settlement, Timestamp};
use semel_store::RecordMap;
use tokio::sync::watch;
use tokio::time::Instant;

mod entry;

pub(crate) use entry::RegistryEntry;

const SHARDS: usize = 64;

/// The records that attempts of this engine claim, execute, settle or wait for. Bounded by the limits for
/// executions and waiters.
#[derive(Debug)]
pub(crate) struct Registry {
    shards: [Mutex<RecordMap<Local>>; SHARDS],
}

/// An event of a record.
#[derive(Clone, Debug)]
pub(crate) enum Notification {
    /// The record may have changed: read it.
    Changed,
    /// Its outcome is durable.
    Settled {
        /// Of the request that was executed. A record may expire and begin a new life with
        /// another request, whose outcome is not the answer to every listener (I8).
        fingerprint: Fingerprint,
        settlement: Settlement,
        expires: Timestamp,
        source: Source,
    },
}

/// The source of an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The holder has written it. The store's acknowledgement may have been late, and the record expired since.
    Holder,
    /// The store replied with it to a claim that a duplicate had sent at this moment.
    Duplicate { asked: Instant },
}

/// The local state of one record.
#[derive(Debug, Default)]
struct Local {
    /// Created for the first listener: most executions end without one.
    notification: Option<watch::Sender<Notification>>,
    holder: Option<Holder>,
    /// The attempts that may be granted a lease: claiming, in doubt about a claim, or the holder's own.
    claimants: Vec<Candidate>,
    listeners: usize,
    waiters: usize,
}

/// An attempt that may be granted a lease.
#[derive(Debug)]
struct Candidate {
    owner: Owner,
    fingerprint: Fingerprint,
    /// The holder continues under the lease that this attempt was granted, which no longer belongs to the attempt.
    is_adopted: bool,
}

/// The execution or settlement of this process. There is at most one.
#[derive(Debug)]
struct Holder {
    fingerprint: Fingerprint,
    lease_use: LeaseUse,
    /// When its lease runs out, by the latest answer of the store.
    until: Timestamp,
}

/// What a holder uses its lease for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeaseUse {
    /// It executes, or settles what it has executed.
    Execution,
    /// It releases the lease: nothing was executed under it, or the work may be tried again.
    Release,
}

/// The execution or settlement of this process that a new attempt of the same record finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Joined {
    /// The fingerprints agree; if not, the attempt is a mismatch (I8).
    pub(crate) is_same_request: bool,
    /// When the lease runs out, by the latest answer of the store. In an outage that may be past.
    pub(crate) until: Timestamp,
}

/// Receives the notifications of a record from its creation on. A listener that was created before the store is
/// called misses nothing that happens after the store's answer.
#[derive(Debug)]
pub(crate) struct Listener {
    registry: Arc<Registry>,
    id: RecordId,
    notification: watch::Receiver<Notification>,
    waits: bool,
}

// === impl Registry ===

impl Default for Registry {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl Registry {
    pub(crate) fn listen(self: &Arc<Self>, id: RecordId) -> Listener {
        let notification = self.with(id, |local| {
            local.listeners += 1;
            local
                .notification
                .get_or_insert_with(|| watch::Sender::new(Notification::Changed))
                .subscribe()
        });
        Listener { registry: self.clone(), id, notification, waits: false }
    }

    /// Enters an attempt that is about to claim, unless this process executes or settles the record.
    pub(crate) fn enter(self: &Arc<Self>, attempt: &Attempt) -> Result<RegistryEntry, Joined> {
        self.with(attempt.id(), |local| {
            local.check(attempt.fingerprint())?;
            local.claimants.push(Candidate::new(attempt));
            Ok(())
        })?;
        Ok(RegistryEntry::new(self, attempt))
    }

    /// Enters an attempt that sends no further claim, but may still be granted an earlier one.
    pub(crate) fn enter_in_doubt(self: &Arc<Self>, attempt: &Attempt) -> RegistryEntry {
        self.with(attempt.id(), |local| local.claimants.push(Candidate::new(attempt)));
        RegistryEntry::new(self, attempt)
    }

    /// Whether this process executes a record, or settles it.
    pub(crate) fn executes(&self, id: RecordId) -> bool {
        let executes = |holder: &Holder| holder.lease_use == LeaseUse::Execution;
        self.shard(id).get(&id).is_some_and(|local| local.holder.as_ref().is_some_and(executes))
    }

    /// Notifies the listeners of an outcome that one of them has found.
    pub(crate) fn notify(&self, id: RecordId, notification: Notification) {
        self.with(id, |local| {
            if let Some(sender) = &local.notification {
                sender.send_replace(notification);
            }
        });
    }

    /// Accesses a record's local state, which is removed when it is no longer needed.
    fn with<T>(&self, id: RecordId, act: impl FnOnce(&mut Local) -> T) -> T {
        let mut shard = self.shard(id);
        let mut entry = match shard.entry(id) {
            Entry::Occupied(entry) => entry,
            Entry::Vacant(entry) => entry.insert_entry(Local::default()),
        };
        let done = act(entry.get_mut());
        if entry.get().is_over() {
            entry.remove();
        }
        done
    }

    fn shard(&self, id: RecordId) -> MutexGuard<'_, RecordMap<Local>> {
        // Record ids are hashes, so any byte spreads them.
        let shard = usize::from(id.as_bytes()[0]) % SHARDS;
        // Counters are changed in single steps, so a panic elsewhere leaves them consistent.
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Local ===

impl Local {
    const fn is_over(&self) -> bool {
        self.holder.is_none() && self.claimants.is_empty() && self.listeners == 0
    }

    fn candidate(&mut self, owner: Owner) -> Option<&mut Candidate> {
        self.claimants.iter_mut().find(|candidate| candidate.owner == owner)
    }

    /// Removes the holder, and notifies the listeners.
    fn leave(&mut self, notification: &Notification) {
        self.holder = None;
        if let Some(sender) = &self.notification {
            sender.send_replace(notification.clone());
        }
    }

    /// No claim may be sent past an execution or settlement of this process.
    fn check(&self, fingerprint: Fingerprint) -> Result<(), Joined> {
        match &self.holder {
            Some(_) if planted(Bug::ClaimsPastOwnExecution) => Ok(()),
            Some(holder) => Err(holder.joined_by(fingerprint)),
            None => Ok(()),
        }
    }
}

// === impl Candidate ===

impl Candidate {
    const fn new(attempt: &Attempt) -> Self {
        let (owner, fingerprint) = (attempt.owner(), attempt.fingerprint());
        Self { owner, fingerprint, is_adopted: false }
    }
}

// === impl Holder ===

impl Holder {
    fn joined_by(&self, fingerprint: Fingerprint) -> Joined {
        Joined { is_same_request: self.fingerprint == fingerprint, until: self.until }
    }
}

// === impl Listener ===

impl Listener {
    /// Counts this listener as one that waits, unless `max` already do.
    pub(crate) fn start_waiting(&mut self, max: usize) -> bool {
        self.waits = self.registry.with(self.id, |local| {
            let free = local.waiters < max;
            local.waiters += usize::from(free);
            free
        });
        self.waits
    }

    /// Whether this process executes or settles the record, or releases a lease of it.
    pub(crate) fn is_held_here(&self) -> bool {
        self.registry.with(self.id, |local| local.holder.is_some())
    }

    /// How many listeners of the record wait.
    pub(crate) fn waiters(&self) -> usize {
        self.registry.with(self.id, |local| local.waiters)
    }

    /// The latest notification that was not received yet. Cancel-safe: a notification that was not returned is kept.
    pub(crate) async fn recv(&mut self) -> Notification {
        match self.notification.changed().await {
            Ok(()) => self.notification.borrow_and_update().clone(),
            // Impossible: the sender is kept while there are listeners. Polling goes on in any case.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.registry.with(self.id, |local| {
            local.listeners -= 1;
            local.waiters -= usize::from(self.waits);
        });
    }
}

#[cfg(test)]
mod tests;
