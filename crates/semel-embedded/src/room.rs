//! The directory and the open engine in it, shared by the committer and by readers.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use semel_core::{Record, Timestamp};
use semel_store::Clock as _;

use crate::check::check;
use crate::database::Database;
use crate::directory::{Creation, Directory};
use crate::outage::Outage;
use crate::times::{Finding, Times};
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
    pub(crate) times: Arc<Times>,
    pub(crate) outage: Outage,
    /// The number of the latest group that readers can see.
    pub(crate) committed: AtomicU64,
    /// Was the last attempt to keep the mark of the clock a success?
    mark_is_kept: AtomicBool,
}

// === impl Room ===

impl Room {
    pub(crate) fn open(options: Options) -> Result<Self, OpenError> {
        let mut directory = Directory::take(&options.path)?;
        let past = directory.past();
        let database = open(&directory, &options).inspect_err(|_| directory.undo())?;
        directory.finish()?;
        let times = Arc::new(Times::start(Arc::clone(&options.clock), past));
        report(&times, &directory);
        let room = Self {
            database: RwLock::new(Some(database)),
            directory,
            options,
            times,
            outage: Outage::default(),
            committed: AtomicU64::new(0),
            mark_is_kept: AtomicBool::new(true),
        };
        room.keep_mark();
        Ok(room)
    }

    /// Writes down the time, to compare the next start with. Says so when that begins to fail, as
    /// nothing else may notice, and when it works again.
    pub(crate) fn keep_mark(&self) {
        let kept = self.directory.write_mark(&self.times.mark());
        let was_kept = self.mark_is_kept.swap(kept.is_ok(), Ordering::Relaxed);
        let path = self.path().display();
        match kept {
            Err(error) if was_kept => tracing::warn!(
                %path, %error,
                "the mark of the clock cannot be kept, so the next start takes the time since for a \
                 pause; free space and inodes, and let the process write the directory itself"
            ),
            Ok(()) if !was_kept => tracing::info!(%path, "the mark of the clock is kept again"),
            Ok(()) | Err(_) => {}
        }
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
        self.times.now()
    }

    /// Changes a record that was read to what it counts as at `now`. Doing so twice changes nothing.
    pub(crate) fn judge(&self, record: Option<&mut Record>, now: Timestamp) {
        if let Some(record) = record {
            self.times.adjust(record, now);
            self.outage.extend(record, now);
        }
    }

    /// May expired records be deleted now?
    pub(crate) fn may_sweep(&self) -> bool {
        let now = self.now();
        // What looks expired in an outage may be under a lease that is extended.
        self.times.may_sweep(now) && !self.outage.is_felt(now)
    }

    /// What an acknowledged write survives.
    pub(crate) fn durability(&self) -> Durability {
        self.options.durability
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Says what is odd about the time at the start, with the cure.
fn report(times: &Times, directory: &Directory) {
    let path = directory.path().display();
    match times.finding() {
        Finding::Plausible => {}
        Finding::Unmarked => tracing::info!(
            %path,
            "there is no mark of the clock yet; the last write to the log stands in for it, and nothing \
             is swept for an hour"
        ),
        Finding::Unknown => tracing::warn!(
            %path,
            "there is no mark of the clock, and the log was last written to later than now, or at a \
             time that cannot be read; records count from now on, and nothing is swept for an hour; \
             if the machine's clock is wrong, set it and restart"
        ),
        Finding::Ahead(by) => tracing::warn!(
            %path, ?by,
            "the clock is far ahead of when this store was last open; records count as if that time \
             had not passed, and nothing is swept for an hour; if the store was not closed for that \
             long, set the machine's clock and restart"
        ),
        Finding::Behind(by) => tracing::warn!(
            %path, ?by,
            "the clock is behind the last use of this store; its time goes on from there, and nothing \
             is swept for an hour; set the machine's clock and restart, or, if it is right now and \
             was ahead before, stop the process and delete the file `clock` in the directory"
        ),
        Finding::WasAhead(by) => tracing::warn!(
            %path, ?by,
            "the clock was ahead at an earlier start of this store; what was written then counts from \
             now on, and nothing is swept for an hour"
        ),
    }
}

fn open(directory: &Directory, options: &Options) -> Result<Database, OpenError> {
    let engine = directory.engine();
    match directory.state() {
        Creation::Started => directory.start_over()?,
        Creation::Finished => check(&engine)?.cut_torn_tail()?,
    }
    directory.sign();
    Database::open(&engine, options)
}

#[cfg(test)]
mod tests;
