//! The directory and the open engine in it, shared by the committer and by readers.

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use semel_core::Timestamp;

use crate::check::check;
use crate::database::Database;
use crate::directory::{Creation, Directory};
use crate::{Durability, OpenError, Options};

/// Where the records are.
///
/// After it failed, the engine is opened anew by the committer alone. For that moment readers find
/// `None`: claims then wait at the desk, and `inspect` says that the store is unavailable.
pub(crate) struct Room {
    // Declared before `directory`: the engine must be closed before the directory is given up.
    database: RwLock<Option<Database>>,
    directory: Directory,
    options: Options,
    /// The number of the latest group that readers can see.
    pub(crate) committed: AtomicU64,
}

// === impl Room ===

impl Room {
    pub(crate) fn open(options: Options) -> Result<Self, OpenError> {
        let mut directory = Directory::take(&options.path)?;
        let database = open(&directory, &options).inspect_err(|_| directory.undo())?;
        directory.finish()?;
        Ok(Self {
            database: RwLock::new(Some(database)),
            directory,
            options,
            committed: AtomicU64::new(0),
        })
    }

    /// The engine, if it is open.
    pub(crate) fn database(&self) -> RwLockReadGuard<'_, Option<Database>> {
        self.database.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the engine anew after it failed. Readers go on with the failed one until then.
    pub(crate) fn resume(&self) -> Result<(), OpenError> {
        if let Some(failed) = &*self.database() {
            failed.check_space()?;
        }
        self.replace(None);
        let database = open(&self.directory, &self.options)?;
        database.rewrite().map_err(|error| error.into_open_error(self.path()))?;
        self.replace(Some(database));
        Ok(())
    }

    /// Closes the engine and gives up the directory, also if someone still holds the room.
    pub(crate) fn close(&self) {
        self.replace(None);
        self.directory.release();
    }

    /// Waits for readers to leave.
    fn replace(&self, database: Option<Database>) {
        let old = {
            let mut slot = self.database.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *slot, database)
        };
        // Not under the lock: closing an engine that failed may take long, and readers must not
        // wait for it.
        drop(old);
    }

    /// The time by which everything is decided.
    pub(crate) fn now(&self) -> Timestamp {
        self.options.clock.now()
    }

    /// What an acknowledged write survives.
    pub(crate) fn durability(&self) -> Durability {
        self.options.durability
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }
}

fn open(directory: &Directory, options: &Options) -> Result<Database, OpenError> {
    let engine = directory.engine();
    match directory.state() {
        Creation::Started => directory.start_over()?,
        Creation::Finished => check(&engine)?.cut_torn_tail()?,
    }
    directory.sign();
    Database::open(&engine, options.durability, options.cache_bytes)
}
