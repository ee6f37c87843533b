//! Which connection a verb takes.
//!
//! A verb that writes is best alone on its connection: the server makes the commits of many durable
//! together. Verbs that only read are best behind each other on a few: fewer processes have to be woken.
//! What a claim will be is not known before, so it goes by what the last verbs were ([`Habit`]).
//!
//! While all connections are busy one more is opened, up to the limit, in the background: nobody waits
//! for it. A connection that broke is replaced when the next verb comes.

mod habit;

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
use crate::lane::Lane;
use crate::tls::Connector;
use habit::Habit;

/// How many verbs may wait on one connection (I10).
const LOAD_MAX: usize = 512;
/// How many verbs are sent behind each other while they only read.
const READERS: usize = 4;
/// How long no further connection is tried after one was refused.
const GROWTH_PAUSE: Duration = Duration::from_secs(1);
/// How long a connection that was cut still counts: a server that cannot commit does not notice, and
/// keeps its side of it.
const CUT_COUNTS: Duration = Duration::from_mins(1);

/// All connections of a store.
#[derive(Debug)]
pub(crate) struct Lanes {
    shared: Arc<Shared>,
}

struct Shared {
    options: Options,
    connector: Connector,
    runtime: Handle,
    open: Mutex<Vec<Arc<Lane>>>,
    /// Held while the first connection is made; remembers why that failed last.
    first: Arc<tokio::sync::Mutex<Option<Failure>>>,
    growing: AtomicBool,
    habit: Habit,
    /// When connections were cut because they were silent.
    cut: Mutex<Vec<Instant>>,
}

struct Failure {
    at: Instant,
    error: OpenError,
}

/// A place on a connection; given back when dropped.
#[derive(Debug)]
pub(crate) struct Booked {
    lane: Arc<Lane>,
    shared: Arc<Shared>,
    answered: bool,
}

// === impl Lanes ===

impl Lanes {
    /// Makes the first connection. All are driven on the present runtime.
    pub(crate) async fn open(options: Options, connector: Connector) -> Result<Self, OpenError> {
        let runtime = Handle::current();
        let lane = Lane::open(&options, &connector, &runtime).await?;
        let shared = Arc::new(Shared {
            options,
            connector,
            runtime,
            open: Mutex::new(vec![Arc::new(lane)]),
            first: Arc::default(),
            growing: AtomicBool::new(false),
            habit: Habit::default(),
            cut: Mutex::default(),
        });
        Ok(Self { shared })
    }

    /// A place on a connection.
    pub(crate) async fn book(&self) -> Result<Booked, StoreError> {
        let shared = &self.shared;
        if let Some((lane, all_busy)) = shared.best() {
            if all_busy {
                shared.grow();
            }
            return shared.book(lane);
        }
        let lane = shared.first().await?;
        shared.book(lane)
    }

    /// A verb only read.
    pub(crate) fn has_read(&self) {
        self.shared.habit.note(false);
    }

    /// A verb was committed. So those that the server was cut off from have noticed by now.
    pub(crate) fn has_committed(&self) {
        self.shared.habit.note(true);
        self.shared.cut.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(crate) fn options(&self) -> &Options {
        &self.shared.options
    }
}

// === impl Shared ===

impl Shared {
    fn lanes(&self) -> MutexGuard<'_, Vec<Arc<Lane>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection to take, and whether another would be better.
    fn best(&self) -> Option<(Arc<Lane>, bool)> {
        let mut lanes = self.lanes();
        lanes.retain(|lane| lane.is_open());
        if self.habit.is_reading()
            && let Some(lane) =
                lanes.iter().find(|lane| !lane.is_suspect() && lane.load() < READERS)
        {
            return Some((lane.clone(), false));
        }
        let best = lanes.iter().min_by_key(|lane| (lane.is_suspect(), lane.load()))?;
        let all_busy = best.is_suspect() || best.load() > 0;
        Some((best.clone(), all_busy && lanes.len() + self.cut_lately() < self.options.lanes_max))
    }

    fn cut_lately(&self) -> usize {
        let mut cut = self.cut.lock().unwrap_or_else(PoisonError::into_inner);
        cut.retain(|at| at.elapsed() < CUT_COUNTS);
        cut.len()
    }

    fn book(self: &Arc<Self>, lane: Arc<Lane>) -> Result<Booked, StoreError> {
        if lane.load() >= LOAD_MAX {
            let what = format!(
                "{LOAD_MAX} verbs wait on each of the connections to {}; raise pool_max, or add \
                 capacity to the server",
                self.options
            );
            return Err(StoreError::unavailable(what));
        }
        lane.enter();
        Ok(Booked { lane, shared: self.clone(), answered: false })
    }

    /// Makes a connection when there is none. One caller tries; those who came meanwhile get what
    /// came of it.
    async fn first(self: &Arc<Self>) -> Result<Arc<Lane>, StoreError> {
        let came = Instant::now();
        let last = self.first.clone().lock_owned().await;
        if let Some((lane, _)) = self.best() {
            return Ok(lane);
        }
        match &*last {
            Some(failure) if failure.at >= came => return Err(failure.error.to_store_error()),
            _ => {}
        }
        // A task: whoever gives up waiting leaves the connection to the next.
        let task = self.runtime.spawn(self.clone().first_lane(last));
        match task.await {
            Ok(opened) => opened,
            Err(_) => Err(StoreError::unavailable("the runtime is shutting down")),
        }
    }

    async fn first_lane(
        self: Arc<Self>,
        mut last: OwnedMutexGuard<Option<Failure>>,
    ) -> Result<Arc<Lane>, StoreError> {
        match self.open_lane().await {
            Ok(lane) => Ok(lane),
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
            if let Err(error) = shared.open_lane().await {
                tracing::debug!(%error, "no further connection to PostgreSQL");
                sleep(GROWTH_PAUSE).await;
            }
            shared.growing.store(false, Ordering::Release);
        });
    }

    async fn open_lane(&self) -> Result<Arc<Lane>, OpenError> {
        let lane = Arc::new(Lane::open(&self.options, &self.connector, &self.runtime).await?);
        self.lanes().push(lane.clone());
        Ok(lane)
    }

    /// Asks a connection whether it still answers, and cuts it if it does not.
    async fn probe(self: Arc<Self>, lane: Arc<Lane>) {
        let answer = timeout(self.options.verb_timeout, lane.client.simple_query("")).await;
        if matches!(answer, Ok(Ok(_))) {
            lane.set_suspect(false);
        } else {
            lane.give_up();
            self.cut.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
        }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("open", &self.open).finish_non_exhaustive()
    }
}

// === impl Booked ===

impl Booked {
    /// An answer came, of whatever kind.
    pub(crate) fn answered(&mut self) {
        self.answered = true;
    }

    /// The connection is of no further use.
    pub(crate) fn retire(&mut self) {
        self.answered = true;
        self.lane.retire();
    }
}

impl Deref for Booked {
    type Target = Lane;

    fn deref(&self) -> &Lane {
        &self.lane
    }
}

impl Drop for Booked {
    fn drop(&mut self) {
        self.lane.leave();
        // Somebody gave up waiting. Nobody else should, if the server cannot be heard any more.
        if !self.answered && self.lane.is_open() && !self.lane.set_suspect(true) {
            self.shared.runtime.spawn(self.shared.clone().probe(self.lane.clone()));
        }
    }
}
