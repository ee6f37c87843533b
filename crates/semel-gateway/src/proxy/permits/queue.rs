//! The queue of requests that wait for a permit to open a connection to the upstream.
//!
//! A connection that becomes idle is given to a request of its own thread, which costs nothing. But a thread on which
//! requests always wait would never close a connection for other threads. So this queue orders the requests of all
//! threads: once its first has waited longer than the first on the thread by [`AHEAD`], the connection is closed, and
//! its permit goes to that request. One connection is closed for each, also if its thread is slow to notice.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use tokio::time::Instant;

/// The tolerated difference between the waits on two threads. Within it connections are not closed, which costs more
/// than giving them to the next request.
const AHEAD: Duration = Duration::from_millis(10);
/// How many of the oldest waiters are looked at for each connection that becomes idle, under the lock of all threads. If
/// all of these were promised a permit just now, so many connections are being closed already.
const VISITED_MAX: usize = 64;

/// A request that can be given a pooled connection of its thread, and since when it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Local {
    thread: ThreadId,
    pool: u64,
    pub(crate) since: Instant,
}

/// In the order in which they began to wait.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// The same as the length of `all`, to be read without the lock.
    len: AtomicUsize,
    all: Mutex<All>,
}

#[derive(Debug, Default)]
struct All {
    waiting: BTreeMap<(Instant, u64), Entry>,
    joined: u64,
}

#[derive(Debug)]
struct Entry {
    /// The thread and the pool whose connections it can use; `None` if it needs a new connection.
    of: Option<(ThreadId, u64)>,
    /// When a permit was released for it.
    promised: Option<Instant>,
}

/// A queued request, removed when dropped.
pub(super) struct Waiting<'a> {
    queue: &'a Queue,
    key: (Instant, u64),
}

// === impl Local ===

impl Local {
    /// Waits from now on, on this thread, for a connection of this pool.
    pub(crate) fn begin(pool: u64) -> Self {
        Self { thread: thread::current().id(), pool, since: Instant::now() }
    }
}

// === impl Queue ===

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Joins the queue. Calls `first` if nothing waited before.
    pub(super) fn join(&self, local: Option<Local>, first: impl FnOnce()) -> Waiting<'_> {
        let since = local.map_or_else(Instant::now, |local| local.since);
        let mut all = self.lock();
        all.joined += 1;
        let key = (since, all.joined);
        let of = local.map(|local| (local.thread, local.pool));
        all.waiting.insert(key, Entry { of, promised: None });
        if self.count(&all) == 1 {
            first();
        }
        Waiting { queue: self, key }
    }

    /// Whether a request that cannot use the connections of `local` has waited longer than it, by more than [`AHEAD`].
    /// It is promised a permit then, unless it was promised one just now.
    pub(super) fn promise_before(&self, local: Local) -> bool {
        let (own, now) = (Some((local.thread, local.pool)), Instant::now());
        let is_older = |since: &Instant| *since + AHEAD < local.since;
        let is_due = |entry: &Entry| {
            entry.of != own && entry.promised.is_none_or(|promised| promised + AHEAD < now)
        };
        let mut all = self.lock();
        let oldest = all.waiting.iter_mut().take(VISITED_MAX);
        let mut older = oldest.take_while(|((since, _), _)| is_older(since));
        let found = older.find(|(_, entry)| is_due(entry));
        found.map(|(_, entry)| entry.promised = Some(now)).is_some()
    }

    fn count(&self, all: &All) -> usize {
        self.len.store(all.waiting.len(), Ordering::Relaxed);
        all.waiting.len()
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        // No code panics while it holds the lock.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Waiting ===

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut all = self.queue.lock();
        all.waiting.remove(&self.key);
        self.queue.count(&all);
    }
}
