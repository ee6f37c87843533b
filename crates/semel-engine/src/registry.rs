//! What this process does with a record: the execution or settlement that it has under way, the attempts that
//! claim it, and the duplicates that wait for it.
//!
//! The store decides between processes. Within one process the registry does: an attempt never claims past an
//! execution or settlement of its own process, however long the store was away and whatever the store says about
//! the lease by then. What is published here is only what the store has acknowledged; waiters that miss it learn
//! the same by polling.

use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use semel_core::{Attempt, Fingerprint, Owner, RecordId, Settlement, Timestamp};
use semel_planted::{Bug, planted};
use semel_store::RecordMap;
use tokio::sync::watch;
use tokio::time::Instant;

mod presence;

pub(crate) use presence::Presence;

const SHARDS: usize = 64;

/// The records that attempts of this engine claim, execute, settle or wait for. Bounded by the limits for
/// executions and waiters.
#[derive(Debug)]
pub(crate) struct Registry {
    shards: [Mutex<RecordMap<Local>>; SHARDS],
}

/// What happened to a record.
#[derive(Clone, Debug)]
pub(crate) enum News {
    /// Something: ask the store.
    LookAgain,
    /// Its outcome is durable.
    Settled {
        /// Of the request that was executed. A record may expire and begin a new life with
        /// another request, whose outcome is not for everyone who listens (I8).
        fingerprint: Fingerprint,
        settlement: Settlement,
        expires: Timestamp,
        source: Source,
    },
}

/// How an outcome is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Its holder has written it. The store's answer may have been late, and the record expired since.
    Holder,
    /// A duplicate was given it by the store, which it had asked at this moment.
    Duplicate { asked: Instant },
}

/// The local state of one record.
#[derive(Debug, Default)]
struct Local {
    /// Made for the first listener: most executions end without one.
    news: Option<watch::Sender<News>>,
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
    /// The holder goes on under the lease that this attempt was granted, which is the attempt's no more.
    is_adopted: bool,
}

/// The execution or settlement that this process has under way. There is at most one.
#[derive(Debug)]
struct Holder {
    fingerprint: Fingerprint,
    purpose: Purpose,
    /// When its lease runs out, as last heard from the store.
    until: Timestamp,
}

/// What a holder has its lease for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It executes, or settles what it has executed.
    Execution,
    /// It hands the lease back: nothing was executed under it, or what was executed may be tried again.
    Return,
}

/// What an attempt finds that comes while its own process executes or settles the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Joined {
    /// The fingerprints agree; if not, the attempt is a mismatch (I8).
    pub(crate) is_same_request: bool,
    /// When the lease runs out, as last heard from the store. In an outage that may be past.
    pub(crate) until: Timestamp,
}

/// Hears the news of a record from the moment it was made: made before the store is asked, it cannot
/// miss what happens after the store has answered.
#[derive(Debug)]
pub(crate) struct Listener {
    registry: Arc<Registry>,
    id: RecordId,
    news: watch::Receiver<News>,
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
        let news = self.with(id, |local| {
            local.listeners += 1;
            local.news.get_or_insert_with(|| watch::Sender::new(News::LookAgain)).subscribe()
        });
        Listener { registry: self.clone(), id, news, waits: false }
    }

    /// Enters an attempt that is about to claim, unless this process executes or settles the record.
    pub(crate) fn enter(self: &Arc<Self>, attempt: &Attempt) -> Result<Presence, Joined> {
        self.with(attempt.id(), |local| {
            local.check(attempt.fingerprint())?;
            local.claimants.push(Candidate::new(attempt));
            Ok(())
        })?;
        Ok(Presence::new(self, attempt))
    }

    /// Enters an attempt that claims no more, but may still be granted what it claimed.
    pub(crate) fn enter_anyway(self: &Arc<Self>, attempt: &Attempt) -> Presence {
        self.with(attempt.id(), |local| local.claimants.push(Candidate::new(attempt)));
        Presence::new(self, attempt)
    }

    /// Whether this process executes a record, or settles it.
    pub(crate) fn executes(&self, id: RecordId) -> bool {
        let executes = |holder: &Holder| holder.purpose == Purpose::Execution;
        self.shard(id).get(&id).is_some_and(|local| local.holder.as_ref().is_some_and(executes))
    }

    /// Passes on to the listeners what one of them found out.
    pub(crate) fn tell(&self, id: RecordId, news: News) {
        self.with(id, |local| {
            if let Some(sender) = &local.news {
                sender.send_replace(news);
            }
        });
    }

    /// Does something with a record's local state, which is dropped when it is no longer needed.
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
        // Counters are changed in single steps: a panic elsewhere leaves nothing half done.
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

    /// The holder is done.
    fn leave(&mut self, news: &News) {
        self.holder = None;
        if let Some(sender) = &self.news {
            sender.send_replace(news.clone());
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

    /// Whether the record is being executed in this process, and the number of its waiters.
    pub(crate) fn company(&self) -> (bool, usize) {
        self.registry.with(self.id, |local| (local.holder.is_some(), local.waiters))
    }

    /// The latest news after those heard before. Cancel-safe: news not returned are not lost.
    pub(crate) async fn hear(&mut self) -> News {
        match self.news.changed().await {
            Ok(()) => self.news.borrow_and_update().clone(),
            // Cannot be: the sender is kept while there are listeners. Polling goes on in any case.
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
