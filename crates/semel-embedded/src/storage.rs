//! The directory and the open database in it, shared by the committer and by readers.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use semel_core::{Record, Timestamp};
use semel_store::{Clock as _, StoreError, has_descriptors};

use crate::check::check;
use crate::database::Database;
use crate::directory::{Creation, Directory};
use crate::outage::Outage;
use crate::times::{Finding, Times};
use crate::{Durability, OpenError, Options, tuning};

/// Where the records are.
///
/// After a failure, the database is reopened by the committer alone. For that moment readers find
/// `None`: claims then wait in the commit queue, and `inspect` returns that the store is unavailable.
pub(crate) struct Storage {
    // Declared before `directory`: the database must be closed before the directory is released.
    database: RwLock<Option<Database>>,
    directory: Directory,
    options: Options,
    pub(crate) times: Arc<Times>,
    pub(crate) outage: Outage,
    /// Whether the last write of the mark of the clock succeeded.
    mark_is_kept: AtomicBool,
}

// === impl Storage ===

impl Storage {
    pub(crate) fn open(options: Options) -> Result<Self, OpenError> {
        let mut directory = Directory::take(&options.path)?;
        let past = directory.past();
        let database = open(&directory, &options).inspect_err(|_| directory.undo())?;
        directory.finish()?;
        let times = Arc::new(Times::start(Arc::clone(&options.clock), past));
        report(&times, &directory);
        let storage = Self {
            database: RwLock::new(Some(database)),
            directory,
            options,
            times,
            outage: Outage::default(),
            mark_is_kept: AtomicBool::new(true),
        };
        storage.keep_mark();
        Ok(storage)
    }

    /// Writes down the time, to compare the next start with. Logs when that begins to fail, as nothing
    /// else may show it, and when it works again.
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

    /// The database, if it is open.
    pub(crate) fn database(&self) -> RwLockReadGuard<'_, Option<Database>> {
        self.database.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reopens the database after it failed. Readers go on with the failed one until then.
    pub(crate) fn reopen(&self) -> Result<(), OpenError> {
        if let Some(failed) = &*self.database() {
            failed.check_space()?;
        }
        if !has_descriptors(tuning::SPARE_DESCRIPTORS) {
            return Err(OpenError::exhausted(self.path(), "the database is not reopened yet"));
        }
        self.replace(None);
        let database = open(&self.directory, &self.options)?;
        database.rewrite().map_err(|error| error.into_open_error(self.path()))?;
        self.replace(Some(database));
        Ok(())
    }

    /// Closes the database and releases the directory, also if this is still referenced.
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
        // Not under the lock: closing a database that failed may take long, and readers must not
        // wait for it.
        drop(old);
    }

    /// The time by which everything is decided.
    pub(crate) fn now(&self) -> Timestamp {
        self.times.now()
    }

    /// Adjusts a record that was read for leaps of the clock and for outages. Idempotent.
    pub(crate) fn adjust(&self, record: Option<&mut Record>, now: Timestamp) {
        if let Some(record) = record {
            self.times.adjust(record, now);
            self.outage.extend(record, now);
        }
    }

    /// Whether expired records may be deleted now.
    pub(crate) fn may_sweep(&self) -> bool {
        let now = self.now();
        // What looks expired in an outage may be under a lease that is extended.
        self.times.may_sweep(now) && !self.outage.extends_leases(now)
    }

    /// What an acknowledged write survives.
    pub(crate) fn durability(&self) -> Durability {
        self.options.durability
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Logs what is implausible about the time at the start, with the cure.
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
    let path = directory.database();
    match directory.state() {
        Creation::Started => directory.start_over()?,
        Creation::Finished => check(&path)?.cut_torn_tail()?,
    }
    directory.sign();
    Database::open(&path, options)
}

pub(crate) fn reopening() -> StoreError {
    // Whether it can be is not known yet.
    StoreError::not_asked("the embedded store is being opened again after a failure")
}

#[cfg(test)]
mod tests;
