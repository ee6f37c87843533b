//! The database (fjall), opened with our settings and with its errors in our words.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use fjall::{Keyspace, OwnedWriteBatch, PersistMode};
use semel_core::planted::{Bug, planted};
use semel_core::{Record, RecordId, State, Timestamp};
use semel_store::{StoreError, lacks_descriptors};

use crate::{Durability, OpenError, Options, codec, tuning};

/// The database with its one table of records.
pub(crate) struct Database {
    // Declared before `fjall`, so that it is dropped first and fjall can close its files.
    records: Keyspace,
    fjall: fjall::Database,
    path: PathBuf,
    persist: PersistMode,
}

/// One batch of writes, committed as a whole or not at all.
pub(crate) struct WriteBatch {
    batch: OwnedWriteBatch,
    records: Keyspace,
    /// Scratch space: fjall keeps a copy of its own.
    bytes: Vec<u8>,
}

/// Why a batch was not acknowledged.
#[derive(Debug)]
pub(crate) enum CommitError {
    /// The database cannot take more for now; it was not asked, so nothing was written.
    Behind,
    /// The database has stopped by itself; nothing was written, and nothing more can be.
    Stopped(fjall::Error),
    /// The database failed within the batch: it may have been written, and nothing more can be.
    Failed(fjall::Error),
}

/// A range of records, as a sweep sees it.
pub(crate) struct Scan {
    /// The expired ones.
    pub(crate) expired: Vec<RecordId>,
    /// Where to go on; `None` at the end of the table.
    pub(crate) next: Option<RecordId>,
}

// === impl Database ===

impl Database {
    /// Opens the database in `path`, which has been checked or is new.
    pub(crate) fn open(path: &Path, options: &Options) -> Result<Self, OpenError> {
        // Fjall asserts what it expects of its files; a panic here is damage, not a bug of ours.
        let opened = catch_unwind(AssertUnwindSafe(|| {
            let fjall =
                tuning::database(path, options.cache_bytes, options.open_tables_max).open()?;
            let settings = || tuning::records(options.memtable_bytes);
            let records = fjall.keyspace("records", settings)?;
            Ok((fjall, records))
        }));
        let (fjall, records) = opened
            .unwrap_or_else(|_| Err(fjall::Error::Unrecoverable))
            .map_err(|error| OpenError::fjall(path, error))?;
        let persist = match options.durability {
            Durability::Power => PersistMode::SyncData,
            Durability::Process => PersistMode::Buffer,
        };
        Ok(Self { records, fjall, path: path.to_owned(), persist })
    }

    /// What is kept under `id`. Nothing is readable here before it is as durable as asked for.
    pub(crate) fn get(&self, id: RecordId) -> Result<Option<Record>, StoreError> {
        let value = self.records.get(id.as_bytes()).map_err(|error| self.read_error(error))?;
        value.map(|value| self.decode(id, &value)).transpose()
    }

    pub(crate) fn batch(&self, capacity: usize) -> WriteBatch {
        WriteBatch {
            batch: OwnedWriteBatch::with_capacity(self.fjall.clone(), capacity),
            records: self.records.clone(),
            bytes: Vec::new(),
        }
    }

    /// Waits until the database can take a batch, and writes it.
    pub(crate) fn commit(&self, batch: WriteBatch) -> Result<(), CommitError> {
        self.wait_for_room()?;
        self.commit_now(batch)
    }

    /// Writes a batch and waits until it is durable; only then can it be read. Needs
    /// [room](Self::has_room), and no write since that was checked.
    pub(crate) fn commit_now(&self, batch: WriteBatch) -> Result<(), CommitError> {
        // Without one fjall keeps the batch in a buffer of its own.
        let persist = (!planted(Bug::SettleNotSynced)).then_some(self.persist);
        batch.batch.durability(persist).commit().map_err(|error| match error {
            // It looks whether it is poisoned before it writes.
            fjall::Error::Poisoned => CommitError::Stopped(error),
            _ => CommitError::Failed(error),
        })
    }

    /// Scans up to `scan_max` records from `from` on, and lists up to `expired_max` that expired, by
    /// when they were created and when they expire.
    pub(crate) fn scan_expired(
        &self,
        from: RecordId,
        is_expired: impl Fn(Timestamp, Timestamp) -> bool,
        scan_max: usize,
        expired_max: usize,
    ) -> Result<Scan, StoreError> {
        let mut expired = Vec::new();
        let start = from.as_bytes().as_slice();
        for (seen, entry) in self.records.range(start..).enumerate() {
            let (key, value) = entry.into_inner().map_err(|error| self.read_error(error))?;
            let id = key.first_chunk().copied().map(RecordId::from_bytes).ok_or_else(|| {
                StoreError::Corrupt {
                    what: format!("{} has a key that is no record id", self.path.display()),
                }
            })?;
            if seen == scan_max || expired.len() == expired_max {
                return Ok(Scan { expired, next: Some(id) });
            }
            let is_expired =
                codec::times(&value).is_some_and(|(created, expires)| is_expired(created, expires));
            if is_expired || self.is_taken_for_garbage(id, &value) {
                expired.push(id);
            }
        }
        Ok(Scan { expired, next: None })
    }

    /// Never, unless a mistake is planted.
    fn is_taken_for_garbage(&self, id: RecordId, value: &[u8]) -> bool {
        planted(Bug::SweepDeletesLiveLeases)
            && self
                .decode(id, value)
                .is_ok_and(|record| matches!(record.state, State::Leased { .. }))
    }

    /// Puts everything that was read from the log into files of its own, synced.
    ///
    /// After a failed sync the operating system may show bytes that the device never got. What was
    /// recovered from such bytes must be written again before it is acknowledged.
    pub(crate) fn rewrite(&self) -> Result<(), CommitError> {
        self.records.rotate_memtable().map_err(CommitError::Stopped)?;
        while self.records.sealed_memtable_count() > 0 {
            self.check_alive()?;
            std::thread::sleep(Duration::from_millis(1));
        }
        self.check_alive()
    }

    /// Whether there is space to write the log's content into tables.
    pub(crate) fn check_space(&self) -> Result<(), OpenError> {
        let device = rustix::fs::statvfs(&self.path)
            .map_err(|error| OpenError::io(&self.path, error.into()))?;
        let needed = tuning::SPARE_BYTES + self.fjall.write_buffer_size();
        if device.f_bavail.saturating_mul(device.f_frsize) >= needed {
            return Ok(());
        }
        Err(OpenError::io(&self.path, io::ErrorKind::StorageFull.into()))
    }

    /// Waits, within bounds, while fjall is behind with its background work.
    ///
    /// Fjall would wait by itself, but without end if its workers have died of a full disk.
    fn wait_for_room(&self) -> Result<(), CommitError> {
        for _ in 0..tuning::STALL_TIMEOUT_MS {
            if self.has_room() {
                return Ok(());
            }
            self.check_alive()?;
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(CommitError::Behind)
    }

    /// Whether the database takes a batch at once.
    pub(crate) fn has_room(&self) -> bool {
        self.records.sealed_memtable_count() < tuning::SEALED_MAX
            && self.records.l0_table_count() < tuning::FRESH_TABLES_MAX
    }

    /// Fails if the threads of fjall have died; costs nothing otherwise.
    pub(crate) fn check_alive(&self) -> Result<(), CommitError> {
        self.fjall.persist(PersistMode::Buffer).map_err(CommitError::Stopped)
    }

    fn decode(&self, id: RecordId, value: &[u8]) -> Result<Record, StoreError> {
        codec::decode(id, &Bytes::copy_from_slice(value)).map_err(|error| StoreError::Corrupt {
            what: format!("record {} in {}: {error}", id.prefix(), self.path.display()),
        })
    }

    fn read_error(&self, error: fjall::Error) -> StoreError {
        OpenError::fjall(&self.path, error).into()
    }
}

// === impl WriteBatch ===

impl WriteBatch {
    pub(crate) fn write(&mut self, id: RecordId, record: &Record) {
        codec::encode(id, record, &mut self.bytes);
        self.batch.insert(&self.records, id.as_bytes().as_slice(), self.bytes.as_slice());
    }

    pub(crate) fn delete(&mut self, id: RecordId) {
        self.batch.remove(&self.records, id.as_bytes().as_slice());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.batch.len()
    }
}

// === impl CommitError ===

impl CommitError {
    /// Whether the database has stopped by itself, without a reason. The next operation reopens it, and
    /// finds out whether the disk is full or this process lacks descriptors; until then nothing is known
    /// about the store.
    pub(crate) fn is_unexplained(&self) -> bool {
        matches!(self, Self::Stopped(error) if !is_disk_full(error))
    }

    /// Whether the database must be reopened.
    pub(crate) fn is_fatal(&self) -> bool {
        !matches!(self, Self::Behind)
    }

    /// The same, met while opening.
    pub(crate) fn into_open_error(self, path: &Path) -> OpenError {
        match self {
            Self::Behind => OpenError::io(path, io::ErrorKind::TimedOut.into()),
            // A database that stops while it is opened could not write: its own error is lost.
            Self::Stopped(fjall::Error::Poisoned) if lacks_descriptors() => {
                OpenError::exhausted(path, "the database stopped")
            }
            Self::Stopped(fjall::Error::Poisoned) => {
                OpenError::io(path, io::ErrorKind::StorageFull.into())
            }
            Self::Stopped(error) | Self::Failed(error) => OpenError::fjall(path, error),
        }
    }

    /// What an operator should know, with the cure where there is one.
    pub(crate) fn explain(&self, path: &Path) -> String {
        let path = path.display();
        match self {
            Self::Behind => format!(
                "the database in {path} cannot keep up with its background work; the disk is too slow or too busy"
            ),
            Self::Stopped(error) | Self::Failed(error) if is_disk_full(error) => {
                format!("no space left for {path}; free some, and it goes on by itself")
            }
            Self::Stopped(fjall::Error::Poisoned) => format!(
                "the database in {path} has stopped, most likely for want of space or of file descriptors; free some, \
                 and it goes on by itself"
            ),
            Self::Stopped(error) | Self::Failed(error) => {
                format!("the database in {path} failed: {error}")
            }
        }
    }
}

fn is_disk_full(error: &fjall::Error) -> bool {
    let (fjall::Error::Io(source) | fjall::Error::Storage(fjall::LsmError::Io(source))) = error
    else {
        return false;
    };
    matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
