//! The limit of connections to the upstream.

mod queue;

pub(crate) use queue::Local;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout_at};

use self::queue::Queue;
use super::connect_window::{ConnectWindow, ProbationPermit};

/// The connections of all threads to all upstreams there have been.
#[derive(Debug)]
pub(crate) struct UpstreamPermits {
    max: usize,
    all: Arc<Semaphore>,
    window: Arc<ConnectWindow>,
    /// Permits whose requests wait for the window.
    unopened: AtomicUsize,
    /// The requests that wait for a permit.
    queue: Queue,
    /// Notified when the first of them begins to wait.
    wanted: watch::Sender<()>,
}

/// A permit for one connection, held while the connection is open.
#[derive(Debug)]
pub(crate) struct UpstreamPermit {
    permits: Arc<UpstreamPermits>,
    _permit: Option<OwnedSemaphorePermit>,
}

/// A connection may be opened.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) permit: UpstreamPermit,
    pub(crate) probation: ProbationPermit,
}

/// A permit whose request waits for the window, also if that request is cancelled.
struct Unopened<'a>(&'a AtomicUsize);

/// No permit was available until the time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoPermit;

// === impl UpstreamPermits ===

impl UpstreamPermits {
    pub(crate) fn new(max: usize) -> Self {
        let max = max.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            max,
            all: Arc::new(Semaphore::new(max)),
            window: ConnectWindow::new(),
            unopened: AtomicUsize::new(0),
            queue: Queue::default(),
            wanted: watch::Sender::new(()),
        }
    }

    pub(crate) const fn max(&self) -> usize {
        self.max
    }

    /// How many connections there are.
    pub(crate) fn taken(&self) -> usize {
        let given = self.max - self.all.available_permits();
        given.saturating_sub(self.unopened.load(Ordering::Relaxed))
    }

    /// How many requests wait for a permit.
    pub(crate) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Notifies when a request begins to wait for a permit: all threads close their idle connections then.
    pub(crate) fn wanted(&self) -> watch::Receiver<()> {
        self.wanted.subscribe()
    }

    /// Waits until another connection may be opened, first come, first served. Cancel-safe.
    ///
    /// The permit is first: its queue is fair to all threads, and the window knows none. Only the wait for a permit can
    /// time out. The wait for the window ends at half of the time: a server that is slow to accept is no reason to
    /// refuse a request.
    pub(crate) async fn opening(
        self: &Arc<Self>,
        local: Local,
        until: Instant,
    ) -> Result<Opening, NoPermit> {
        let half = until.saturating_duration_since(local.since) / 2;
        let permit = self.acquire(Some(local), until).await?;
        let unopened = Unopened::count(&self.unopened);
        let probation = self.window.enter(local.since + half).await;
        drop(unopened);
        Ok(Opening { permit, probation })
    }

    /// Waits for a permit, first come, first served. Cancel-safe. `local` is given by a request that can also use a
    /// pooled connection of its thread.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        local: Option<Local>,
        until: Instant,
    ) -> Result<UpstreamPermit, NoPermit> {
        let permit = if let Ok(permit) = self.all.clone().try_acquire_owned() {
            Some(permit)
        } else {
            let _waiting = self.queue.join(local, || {
                // From then on connections that become idle are closed, so later requests need no notification.
                self.wanted.send_replace(());
            });
            // It is never closed.
            timeout_at(until, self.all.clone().acquire_owned()).await.map_err(|_| NoPermit)?.ok()
        };
        Ok(UpstreamPermit { permits: self.clone(), _permit: permit })
    }
}

// === impl Unopened ===

impl<'a> Unopened<'a> {
    fn count(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Unopened<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

// === impl UpstreamPermit ===

impl UpstreamPermit {
    /// Whether a request on any thread waits for a permit. It has priority over an idle connection.
    pub(crate) fn is_wanted(&self) -> bool {
        self.permits.waiting() > 0
    }

    /// Whether this permit is due to a request elsewhere, which has waited much longer than `local`, the first on this
    /// thread. If so, it is promised to that request, and the connection must be closed.
    pub(crate) fn promise_elsewhere(&self, local: Local) -> bool {
        self.is_wanted() && self.permits.queue.promise_before(local)
    }
}

#[cfg(test)]
mod tests;
