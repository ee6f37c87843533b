//! The permit of a connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::OwnedSemaphorePermit;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// One of the limited number of connections, given back when dropped. A tunnel keeps the permit of the connection
/// that it was.
pub(crate) struct ConnectionPermit {
    serving: Arc<AtomicUsize>,
    _permit: OwnedSemaphorePermit,
    /// The gateway's shutdown waits until it is dropped.
    _token: TaskTrackerToken,
}

// === impl ConnectionPermit ===

impl ConnectionPermit {
    /// Counts one more connection in `serving`, the count of its thread.
    pub(crate) fn take(
        serving: Arc<AtomicUsize>,
        permit: OwnedSemaphorePermit,
        token: TaskTrackerToken,
    ) -> Self {
        serving.fetch_add(1, Ordering::Relaxed);
        Self { serving, _permit: permit, _token: token }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.serving.fetch_sub(1, Ordering::Relaxed);
    }
}
