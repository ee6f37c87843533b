//! Idle connections to the upstream, for each thread its own.

use std::cell::RefCell;
use std::time::Duration;

use tokio::time::Instant;

use super::upstream::Wire;

thread_local! {
    /// The latest at the end: it is the least likely to have been closed by the upstream. A
    /// connection belongs to the thread whose reactor watches it.
    static IDLE: RefCell<Vec<Idle>> = const { RefCell::new(Vec::new()) };
}

struct Idle {
    pool: u64,
    wire: Box<Wire>,
}

/// The idle connections of one upstream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pool {
    /// Which upstream: after a reload there may be another.
    pub(crate) id: u64,
    pub(crate) max_idle: usize,
    pub(crate) idle_timeout: Duration,
}

// === impl Pool ===

impl Pool {
    /// The connection that became idle last, if it can still be used.
    pub(crate) fn take(self) -> Option<Box<Wire>> {
        IDLE.with_borrow_mut(|idle| {
            while let Some(Idle { pool, wire }) = idle.pop() {
                if pool != self.id {
                    continue;
                }
                if !wire.is_stale(self.idle_timeout) && wire.is_reusable() {
                    return Some(wire);
                }
            }
            None
        })
    }

    /// Keeps a connection for the next request.
    pub(crate) fn put(self, mut wire: Box<Wire>) {
        wire.idle_since = Instant::now();
        IDLE.with_borrow_mut(|idle| {
            if idle.len() < self.max_idle {
                idle.push(Idle { pool: self.id, wire });
            }
        });
    }
}

/// Closes idle connections of this thread that nobody has used for a while.
pub(crate) fn close_unused(pool: Pool) {
    IDLE.with_borrow_mut(|idle| {
        idle.retain(|idle| idle.pool == pool.id && !idle.wire.is_stale(pool.idle_timeout));
    });
}
