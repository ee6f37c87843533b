//! The pool of idle connections to the upstream, and the requests that wait for one, per thread.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::permits::Local;
use super::upstream::UpstreamConnection;

thread_local! {
    /// The most recently used is last: it is the least likely to have been closed by the upstream. A connection belongs
    /// to the thread whose reactor polls it.
    static IDLE: RefCell<Vec<Idle>> = const { RefCell::new(Vec::new()) };
    /// First come, first served. Each is a request in work, and the number of those is limited (I10).
    static WAITING: RefCell<VecDeque<Waiting>> = const { RefCell::new(VecDeque::new()) };
}

struct Idle {
    pool: u64,
    connection: Box<UpstreamConnection>,
}

struct Waiting {
    pool: u64,
    local: Local,
    give: oneshot::Sender<Box<UpstreamConnection>>,
}

/// The idle connections of one upstream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pool {
    /// Identifies the upstream: a reload may configure another.
    pub(crate) id: u64,
    pub(crate) max_idle: usize,
    pub(crate) idle_timeout: Duration,
}

/// Waits for a connection that becomes idle.
pub(crate) struct Waiter {
    pool: Pool,
    given: oneshot::Receiver<Box<UpstreamConnection>>,
}

// === impl Pool ===

impl Pool {
    /// The connection that became idle last and can still be used.
    pub(crate) fn take(self) -> Option<Box<UpstreamConnection>> {
        IDLE.with_borrow_mut(|idle| {
            while let Some(Idle { pool, connection }) = idle.pop() {
                if pool != self.id {
                    continue;
                }
                if !connection.is_stale(self.idle_timeout) && connection.is_reusable() {
                    return Some(connection);
                }
            }
            None
        })
    }

    /// Queues for the next connection that becomes idle on this thread.
    pub(crate) fn wait(self, local: Local) -> Waiter {
        let (give, given) = oneshot::channel();
        let next = Waiting { pool: self.id, local, give };
        WAITING.with_borrow_mut(|waiting| waiting.push_back(next));
        Waiter { pool: self, given }
    }

    /// Gives a connection to the first waiting request, or keeps it idle. If its permit is due to a request of another
    /// thread, it is closed.
    pub(crate) fn put(self, mut connection: Box<UpstreamConnection>) {
        connection.idle_since = Instant::now();
        let first = self.first_waiting();
        if first.is_some_and(|first| connection.permit.promise_elsewhere(first)) {
            return;
        }
        let Some(connection) = self.give(connection) else { return };
        if connection.permit.is_wanted() {
            return;
        }
        IDLE.with_borrow_mut(|idle| {
            if idle.len() < self.max_idle {
                // Without a first reply it may still be in the upstream's backlog.
                let position = if connection.probation.is_some() { 0 } else { idle.len() };
                idle.insert(position, Idle { pool: self.id, connection });
            }
        });
    }

    /// The first waiting request of this thread.
    fn first_waiting(self) -> Option<Local> {
        WAITING.with_borrow(|waiting| {
            let mut own = waiting.iter().filter(|waiting| waiting.pool == self.id);
            own.find(|waiting| !waiting.give.is_closed()).map(|waiting| waiting.local)
        })
    }

    /// Gives a connection to the first request that waits for one of this upstream, or returns it.
    fn give(self, mut connection: Box<UpstreamConnection>) -> Option<Box<UpstreamConnection>> {
        WAITING.with_borrow_mut(|waiting| {
            while let Some(first) = waiting.iter().position(|waiting| waiting.pool == self.id) {
                let waiting = waiting.remove(first)?;
                match waiting.give.send(connection) {
                    Ok(()) => return None,
                    // It was cancelled, or got another.
                    Err(back) => connection = back,
                }
            }
            Some(connection)
        })
    }
}

/// Closes idle connections of this thread that have timed out, or whose permit is needed elsewhere.
pub(crate) fn close_unused(pool: Pool) {
    WAITING.with_borrow_mut(|waiting| waiting.retain(|waiting| !waiting.give.is_closed()));
    IDLE.with_borrow_mut(|idle| {
        idle.retain(|idle| {
            let Idle { pool: of, connection } = idle;
            *of == pool.id
                && !connection.is_stale(pool.idle_timeout)
                && !connection.permit.is_wanted()
        });
    });
}

// === impl Waiter ===

impl Waiter {
    /// The connection. Cancel-safe.
    pub(crate) async fn connection(&mut self) -> Box<UpstreamConnection> {
        match (&mut self.given).await {
            Ok(connection) => connection,
            // The queue was dropped: the thread ends.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.given.close();
        // It was given one just before it was cancelled.
        if let Ok(connection) = self.given.try_recv() {
            self.pool.put(connection);
        }
    }
}
