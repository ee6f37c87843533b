//! How an execution of this process wakes the duplicates that wait for it.
//!
//! The store stays the judge: what is published here is only what the store has acknowledged, and
//! whoever hears nothing learns the same by polling.

use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use semel_core::{Fingerprint, RecordId, Settlement, Timestamp};
use semel_store::RecordMap;
use tokio::sync::watch;

const SHARDS: usize = 64;

/// The records of this engine that somebody executes or listens to. Bounded by the limits for
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
    },
}

/// One record's local matters.
#[derive(Debug, Default)]
struct Local {
    /// Made for the first who listens: most executions end unheard.
    news: Option<watch::Sender<News>>,
    executing: usize,
    listeners: usize,
    waiters: usize,
}

/// Hears the news of a record from the moment it was made. Whoever makes one first and then asks
/// the store cannot miss what happens after the store answered.
#[derive(Debug)]
pub(crate) struct Listener {
    registry: Arc<Registry>,
    id: RecordId,
    news: watch::Receiver<News>,
    waits: bool,
}

/// An execution in this process. It tells its news when it is dropped; without any, it says to look
/// again.
#[derive(Debug)]
pub(crate) struct Announcer {
    registry: Arc<Registry>,
    id: RecordId,
    news: News,
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

    pub(crate) fn announce(self: &Arc<Self>, id: RecordId) -> Announcer {
        self.with(id, |local| local.executing += 1);
        Announcer { registry: self.clone(), id, news: News::LookAgain }
    }

    /// Tells those who listen here what one of them found out.
    pub(crate) fn tell(&self, id: RecordId, news: News) {
        self.with(id, |local| {
            if let Some(sender) = &local.news {
                sender.send_replace(news);
            }
        });
    }

    /// Does something with a record's local matters, and forgets them when nobody is left.
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
        self.executing == 0 && self.listeners == 0
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

    /// Is the record being executed in this process, and how many wait for it?
    pub(crate) fn company(&self) -> (bool, usize) {
        self.registry.with(self.id, |local| (local.executing > 0, local.waiters))
    }

    /// The latest news after those heard before. Cancel-safe: news not returned are not lost.
    pub(crate) async fn hear(&mut self) -> News {
        match self.news.changed().await {
            Ok(()) => self.news.borrow_and_update().clone(),
            // Cannot be: the sender is kept while anyone listens. Polling goes on in any case.
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

// === impl Announcer ===

impl Announcer {
    /// Takes note of what to tell when the execution ends, which is now.
    pub(crate) fn publish(&mut self, news: News) {
        self.news = news;
    }
}

impl Drop for Announcer {
    fn drop(&mut self) {
        self.registry.with(self.id, |local| {
            local.executing -= 1;
            if let Some(news) = &local.news {
                news.send_replace(self.news.clone());
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u8) -> RecordId {
        RecordId::from_bytes([number; 32])
    }

    fn is_empty(registry: &Registry) -> bool {
        registry.shards.iter().all(|shard| shard.lock().unwrap().is_empty())
    }

    #[tokio::test]
    async fn news_published_before_anyone_hears_are_not_missed() {
        let registry = Arc::new(Registry::default());
        let mut listener = registry.listen(record(1));
        drop(registry.announce(record(1)));
        assert!(matches!(listener.hear().await, News::LookAgain));
    }

    #[tokio::test]
    async fn who_comes_while_it_executes_hears_how_it_ended() {
        let registry = Arc::new(Registry::default());
        let mut announcer = registry.announce(record(1));
        let mut listener = registry.listen(record(1));
        let (fingerprint, settlement) = (Fingerprint::from_bytes([1; 32]), Settlement::Abandoned);
        announcer.publish(News::Settled { fingerprint, settlement, expires: Timestamp::ZERO });
        drop(announcer);
        assert!(matches!(listener.hear().await, News::Settled { .. }));
    }

    #[tokio::test]
    async fn old_news_are_not_heard_again() {
        let registry = Arc::new(Registry::default());
        let _keeps_it_alive = registry.listen(record(1));
        drop(registry.announce(record(1)));
        let mut late = registry.listen(record(1));
        let heard = tokio::time::timeout(std::time::Duration::ZERO, late.hear()).await;
        assert!(heard.is_err());
    }

    #[test]
    fn nothing_is_kept_once_nobody_is_there() {
        let registry = Arc::new(Registry::default());
        let listener = registry.listen(record(1));
        let announcer = registry.announce(record(1));
        drop((listener, announcer, registry.announce(record(2))));
        assert!(is_empty(&registry));
    }

    #[test]
    fn waiters_of_one_record_are_counted_apart() {
        let registry = Arc::new(Registry::default());
        let mut first = registry.listen(record(1));
        let mut second = registry.listen(record(1));
        let mut other = registry.listen(record(2));
        assert!(first.start_waiting(1));
        assert!(!second.start_waiting(1));
        assert!(other.start_waiting(1));
        drop(first);
        assert!(second.start_waiting(1));
        assert_eq!(second.company(), (false, 1));
    }
}
