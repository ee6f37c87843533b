use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use semel_store::{Clock, SteadyClock};

use crate::tuning;

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A power cut: it is synced to the device before it is acknowledged.
    #[default]
    Power,
    /// The death of the process (`kill -9`), not of the machine: it is handed to the operating
    /// system before it is acknowledged.
    Process,
}

/// How to open an embedded store.
///
/// ```no_run
/// use semel_embedded::{Durability, Options};
///
/// let store = Options::new("./semel-data").durability(Durability::Process).open()?;
/// # Ok::<(), semel_embedded::OpenError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) path: PathBuf,
    pub(crate) durability: Durability,
    pub(crate) cache_bytes: u64,
    pub(crate) open_tables_max: usize,
    pub(crate) memtable_bytes: u64,
    pub(crate) sweep_every: Option<Duration>,
    pub(crate) clock: Arc<dyn Clock>,
}

// === impl Options ===

impl Options {
    /// The defaults: [`Durability::Power`], 128 MiB of cache, a sweep every minute.
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self {
            path: path.as_ref().to_owned(),
            durability: Durability::default(),
            cache_bytes: 128 << 20,
            open_tables_max: tuning::OPEN_TABLES_MAX,
            memtable_bytes: tuning::MEMTABLE_BYTES,
            sweep_every: Some(Duration::from_mins(1)),
            clock: Arc::new(SteadyClock::start()),
        }
    }

    /// What an acknowledged write survives.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// How much memory the database may use to cache blocks of its files.
    #[must_use]
    pub fn cache_bytes(mut self, bytes: u64) -> Self {
        self.cache_bytes = bytes;
        self
    }

    /// How many of its files the database keeps open, 400 unless this says otherwise; at least one. Others are opened
    /// for each read. Its log, what it writes and what it merges are open besides: a few dozen at most.
    #[must_use]
    pub fn open_tables_max(mut self, max: usize) -> Self {
        self.open_tables_max = max.max(1);
        self
    }

    /// How much the database collects in memory before it writes a table. For crash tests, which must not
    /// have to write gigabytes before the database has anything to do besides its log.
    #[doc(hidden)]
    #[must_use]
    pub fn memtable_bytes(mut self, bytes: u64) -> Self {
        self.memtable_bytes = bytes;
        self
    }

    /// How long to rest between two sweeps in the background; `None` leaves sweeping to the caller.
    #[must_use]
    pub fn sweep_every(mut self, rest: Option<Duration>) -> Self {
        self.sweep_every = rest;
        self
    }

    /// The clock that leases and expiry are judged by.
    ///
    /// If it is behind the times in the directory when the store is opened, the store goes by another one, which is ahead
    /// of it. So whatever else needs the store's time, such as a cache, has to ask for
    /// [`EmbeddedStore::clock`](crate::EmbeddedStore::clock), and must not share this one.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }
}
