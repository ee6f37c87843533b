//! The pool of pipelined connections, and the choice of one for each verb.
//!
//! A verb that writes is best alone on its connection, because the server makes the commits of several
//! connections durable together. Verbs that only read are best pipelined on a few connections, because
//! fewer server processes are woken. Whether a claim will write is not known before, so the choice
//! follows the ratio of writes among the latest verbs ([`WriteRatio`]).
//!
//! While all connections are busy another one is opened in the background, up to the limit, and no verb
//! waits for it. A connection that broke is replaced with the next verb.

mod connection;
mod verbs;
mod write_ratio;

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_store::StoreError;
use tokio::runtime::Handle;
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, sleep, timeout};

use crate::Options;
use crate::error::OpenError;
use crate::tls::Connector;
use connection::{Connection, Statements};
pub(crate) use verbs::Param;
use write_ratio::WriteRatio;

/// The maximum number of verbs that wait on one connection (I10).
const QUEUE_MAX: usize = 512;
/// The number of read-only verbs that are pipelined on one connection before the next is used.
const READ_BATCH: usize = 4;
/// The pause after a further connection was refused.
const GROWTH_PAUSE: Duration = Duration::from_secs(1);
/// How long a connection that was reset still counts: a server that cannot commit does not notice the
/// reset and keeps its session.
const RESET_COUNTS: Duration = Duration::from_mins(1);

/// All connections of a store.
#[derive(Debug)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    options: Options,
    connector: Connector,
    runtime: Handle,
    open: Mutex<Vec<Arc<Connection>>>,
    /// Held while the first connection is made; the latest failure.
    first: Arc<tokio::sync::Mutex<Option<Failure>>>,
    growing: AtomicBool,
    write_ratio: WriteRatio,
    /// The times of resets of unresponsive connections.
    resets: Mutex<Vec<Instant>>,
}

struct Failure {
    at: Instant,
    error: OpenError,
}

/// A verb's share of a connection; given back when dropped.
#[derive(Debug)]
pub(crate) struct PooledConnection {
    connection: Arc<Connection>,
    shared: Arc<Shared>,
    answered: bool,
}

// === impl Pool ===

impl Pool {
    /// Makes the first connection. All connections are driven on the current runtime.
    pub(crate) async fn open(options: Options, connector: Connector) -> Result<Self, OpenError> {
        let runtime = Handle::current();
        let connection = Connection::open(&options, &connector, &runtime).await?;
        let shared = Arc::new(Shared {
            options,
            connector,
            runtime,
            open: Mutex::new(vec![Arc::new(connection)]),
            first: Arc::default(),
            growing: AtomicBool::new(false),
            write_ratio: WriteRatio::default(),
            resets: Mutex::default(),
        });
        Ok(Self { shared })
    }

    /// A share of a connection.
    pub(crate) async fn get(&self) -> Result<PooledConnection, StoreError> {
        let shared = &self.shared;
        if let Some((connection, all_busy)) = shared.best() {
            if all_busy {
                shared.grow();
            }
            return shared.share(connection);
        }
        let connection = shared.first().await?;
        shared.share(connection)
    }

    /// Counts a verb that only read.
    pub(crate) fn note_read(&self) {
        self.shared.write_ratio.note(false);
    }

    /// Counts a verb that committed. So the server has noticed the resets by now.
    pub(crate) fn note_committed(&self) {
        self.shared.write_ratio.note(true);
        self.shared.resets.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(crate) fn options(&self) -> &Options {
        &self.shared.options
    }
}

// === impl Shared ===

impl Shared {
    fn connections(&self) -> MutexGuard<'_, Vec<Arc<Connection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection to use, and whether another would be better.
    fn best(&self) -> Option<(Arc<Connection>, bool)> {
        let mut connections = self.connections();
        connections.retain(|connection| connection.is_open());
        if self.write_ratio.is_reading()
            && let Some(connection) = connections.iter().find(|connection| {
                !connection.is_stale_suspected() && connection.load() < READ_BATCH
            })
        {
            return Some((connection.clone(), false));
        }
        let best = connections
            .iter()
            .min_by_key(|connection| (connection.is_stale_suspected(), connection.load()))?;
        let all_busy = best.is_stale_suspected() || best.load() > 0;
        Some((
            best.clone(),
            all_busy && connections.len() + self.recent_resets() < self.options.pool_max,
        ))
    }

    fn recent_resets(&self) -> usize {
        let mut resets = self.resets.lock().unwrap_or_else(PoisonError::into_inner);
        resets.retain(|at| at.elapsed() < RESET_COUNTS);
        resets.len()
    }

    fn share(
        self: &Arc<Self>,
        connection: Arc<Connection>,
    ) -> Result<PooledConnection, StoreError> {
        if connection.load() >= QUEUE_MAX {
            let what = format!(
                "{QUEUE_MAX} verbs wait on each of the connections to {}; raise pool_max, or add \
                 capacity to the server",
                self.options
            );
            return Err(StoreError::unavailable(what));
        }
        connection.enter();
        Ok(PooledConnection { connection, shared: self.clone(), answered: false })
    }

    /// Makes a connection when there is none. One caller tries; callers that arrive meanwhile share its
    /// result.
    async fn first(self: &Arc<Self>) -> Result<Arc<Connection>, StoreError> {
        let came = Instant::now();
        let last = self.first.clone().lock_owned().await;
        if let Some((connection, _)) = self.best() {
            return Ok(connection);
        }
        match &*last {
            Some(failure) if failure.at >= came => return Err(failure.error.to_store_error()),
            _ => {}
        }
        // A task, so that the attempt outlives a caller that gives up.
        let task = self.runtime.spawn(self.clone().open_first(last));
        match task.await {
            Ok(opened) => opened,
            Err(_) => Err(StoreError::unavailable("the runtime is shutting down")),
        }
    }

    async fn open_first(
        self: Arc<Self>,
        mut last: OwnedMutexGuard<Option<Failure>>,
    ) -> Result<Arc<Connection>, StoreError> {
        match self.open_one().await {
            Ok(connection) => Ok(connection),
            Err(error) => {
                let answer = error.to_store_error();
                *last = Some(Failure { at: Instant::now(), error });
                Err(answer)
            }
        }
    }

    /// Opens one more connection in the background.
    fn grow(self: &Arc<Self>) {
        if self.growing.swap(true, Ordering::AcqRel) {
            return;
        }
        let shared = self.clone();
        self.runtime.spawn(async move {
            if let Err(error) = shared.open_one().await {
                tracing::debug!(%error, "no further connection to PostgreSQL");
                sleep(GROWTH_PAUSE).await;
            }
            shared.growing.store(false, Ordering::Release);
        });
    }

    async fn open_one(&self) -> Result<Arc<Connection>, OpenError> {
        let connection =
            Arc::new(Connection::open(&self.options, &self.connector, &self.runtime).await?);
        self.connections().push(connection.clone());
        Ok(connection)
    }

    /// Probes a connection, and resets it if it does not respond.
    async fn probe(self: Arc<Self>, connection: Arc<Connection>) {
        let answer = timeout(self.options.verb_timeout, connection.client.simple_query("")).await;
        if matches!(answer, Ok(Ok(_))) {
            connection.set_stale_suspected(false);
        } else {
            connection.reset();
            self.resets.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
        }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("open", &self.open).finish_non_exhaustive()
    }
}

// === impl PooledConnection ===

impl PooledConnection {
    /// Records that the verb got an answer, of any kind.
    pub(crate) fn answered(&mut self) {
        self.answered = true;
    }

    /// Closes the connection.
    pub(crate) fn retire(&mut self) {
        self.answered = true;
        self.connection.retire();
    }
}

impl Deref for PooledConnection {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        self.connection.leave();
        // The verb has timed out. Other verbs must not, if the server no longer responds.
        if !self.answered && self.connection.is_open() && !self.connection.set_stale_suspected(true)
        {
            self.shared.runtime.spawn(self.shared.clone().probe(self.connection.clone()));
        }
    }
}
