//! The directory of a store: its marker, its format, and the lock of the process that uses it.
//!
//! | in the directory | what |
//! |---|---|
//! | `semel.store` | one line: the format, and whether creation was finished |
//! | `clock` | one line: the latest time at which the store was open |
//! | `lock` | locked by the process that has the store open, with its process id |
//! | `engine/` | the files of fjall |
//!
//! Everything here looks before it touches: a directory that is refused is left as it was found.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use semel_core::Timestamp;

use crate::OpenError;
use crate::times::{Mark, Past};

/// The format this code writes. It covers the layout of the directory and of fjall's files;
/// records have a version of their own.
const FORMAT: u32 = 1;

const MARKER: &str = "semel.store";
const MARKER_NEW: &str = "semel.store.new";
const CLOCK: &str = "clock";
const CLOCK_NEW: &str = "clock.new";
const LOCK: &str = "lock";
const DATABASE: &str = "engine";

/// How often to start again when the lock file vanishes under us.
const LOCK_TRIES: usize = 8;

/// A directory that is ours, locked by this process until dropped.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    lock: File,
    state: Creation,
    /// Whether the directory did not exist before.
    made: bool,
}

/// Whether the creation of the database was completed.
///
/// The difference decides what a database directory without its own files means: an interrupted
/// creation that can be started over, or damage that must not be papered over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Creation {
    Started,
    Finished,
}

// === impl Directory ===

impl Directory {
    /// Takes possession of `path`, creating it if there is nothing.
    pub(crate) fn take(path: &Path) -> Result<Self, OpenError> {
        let found = look(path)?;
        let made = found.is_none() && !path.exists();
        if made {
            create(path)?;
        }
        let lock = lock(path)?;
        let mut directory = Self { path: path.to_owned(), lock, state: Creation::Started, made };
        // Another process may have created it between the inspection and the lock.
        if let Some(state) = look(path)? {
            directory.state = state;
        } else {
            write_marker(path, Creation::Started).inspect_err(|_| directory.undo())?;
        }
        Ok(directory)
    }

    /// Where the database keeps its files.
    pub(crate) fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn state(&self) -> Creation {
        self.state
    }

    /// Leaves this process's id in the lock file, for the error message of a second process.
    ///
    /// Only once the directory was found in order: one that is refused is left as it was found.
    pub(crate) fn sign(&self) {
        let mut lock = &self.lock;
        // For the message alone; a full disk must not keep the store from opening.
        let _ = lock
            .set_len(0)
            .and_then(|()| lock.rewind())
            .and_then(|()| writeln!(lock, "{}", std::process::id()));
    }

    /// Lets another take the directory.
    pub(crate) fn release(&self) {
        // If it fails, closing the file does the same.
        let _ = self.lock.unlock();
    }

    /// Takes back a creation that failed, as far as that is possible.
    pub(crate) fn undo(&self) {
        if self.state == Creation::Started {
            let _ = fs::remove_dir_all(self.database());
            for file in [MARKER, MARKER_NEW, LOCK] {
                let _ = fs::remove_file(self.path.join(file));
            }
            if self.made {
                let _ = fs::remove_dir(&self.path);
            }
        }
    }

    /// What earlier processes left about their time. To be asked before the database is opened, which
    /// writes to its log.
    pub(crate) fn past(&self) -> Past {
        if self.state == Creation::Started {
            return Past::New;
        }
        let last_write = last_write(&self.database());
        let Some(mark) = self.mark() else { return Past::Unmarked { last_write } };
        let marked = modified(&self.path.join(CLOCK));
        let stale =
            marked.zip(last_write).map_or(Duration::ZERO, |(marked, last)| marked.until(last));
        Past::Marked { mark, stale }
    }

    /// The mark of the clock that an earlier process left. A directory of an older version has none.
    fn mark(&self) -> Option<Mark> {
        let path = self.path.join(CLOCK);
        let mark = match fs::read_to_string(&path) {
            Ok(text) => Mark::parse(&text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(_) => None,
        };
        if mark.is_none() {
            tracing::warn!(path = %path.display(), "the mark of the clock cannot be read");
        }
        mark
    }

    pub(crate) fn write_mark(&self, mark: &Mark) -> Result<(), OpenError> {
        replace(&self.path, CLOCK_NEW, CLOCK, &mark.to_text())
    }

    /// Removes what an interrupted creation left. Nothing was ever acknowledged from there.
    pub(crate) fn start_over(&self) -> Result<(), OpenError> {
        match fs::remove_dir_all(self.database()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(OpenError::io(&self.database(), error))
            }
            _ => Ok(()),
        }
    }

    /// The database has all its files: from now on a missing one is damage.
    pub(crate) fn finish(&mut self) -> Result<(), OpenError> {
        if self.state == Creation::Started {
            // Fjall does not sync every directory it made, and the marker must not survive
            // a power cut that they do not.
            sync_tree(&self.database())?;
            write_marker(&self.path, Creation::Finished)?;
            self.state = Creation::Finished;
        }
        Ok(())
    }
}

/// Inspects the directory without touching it: `None` means that a store may be created there.
fn look(path: &Path) -> Result<Option<Creation>, OpenError> {
    match fs::read_to_string(path.join(MARKER)) {
        Ok(text) => parse_marker(path, &text).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            refuse_if_occupied(path).map(|()| None)
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            Err(OpenError::NotADirectory { path: path.to_owned() })
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(OpenError::damaged(path.join(MARKER), None, "it is not text"))
        }
        Err(error) => Err(OpenError::io(path, error)),
    }
}

fn refuse_if_occupied(path: &Path) -> Result<(), OpenError> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(OpenError::io(path, error)),
    };
    for entry in entries {
        let name = entry.map_err(|error| OpenError::io(path, error))?.file_name();
        // What an interrupted creation, or mkfs, leaves.
        if ![LOCK, MARKER_NEW, "lost+found"].iter().any(|ours| name == *ours) {
            return Err(OpenError::NotOurs {
                path: path.to_owned(),
                found: name.to_string_lossy().into_owned(),
            });
        }
    }
    Ok(())
}

fn create(path: &Path) -> Result<(), OpenError> {
    let made: Vec<&Path> = path.ancestors().take_while(|ancestor| !ancestor.exists()).collect();
    fs::create_dir_all(path).map_err(|error| OpenError::io(path, error))?;
    // Each new name must survive a power cut, or all within it is lost.
    for parent in made.into_iter().filter_map(Path::parent) {
        let here = parent.as_os_str().is_empty();
        sync_directory(if here { Path::new(".") } else { parent })?;
    }
    Ok(())
}

/// Locks the directory, or returns the process that holds the lock.
fn lock(path: &Path) -> Result<File, OpenError> {
    let file_path = path.join(LOCK);
    for _ in 0..LOCK_TRIES {
        let file = try_lock(path, &file_path)?;
        // Another process may have taken back its failed creation between our opening the file and
        // our locking it; then we hold a lock that no other process sees.
        let same = |found: fs::Metadata| {
            file.metadata().is_ok_and(|ours| (ours.dev(), ours.ino()) == (found.dev(), found.ino()))
        };
        if fs::metadata(&file_path).is_ok_and(same) {
            return Ok(file);
        }
    }
    Err(OpenError::Locked { path: path.to_owned(), pid: None })
}

fn try_lock(path: &Path, file_path: &Path) -> Result<File, OpenError> {
    let io_error = |error| OpenError::io(file_path, error);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let file = options.open(file_path).map_err(io_error)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            let pid = fs::read_to_string(file_path).unwrap_or_default().trim().parse().ok();
            Err(OpenError::Locked { path: path.to_owned(), pid })
        }
        Err(TryLockError::Error(error)) => Err(io_error(error)),
    }
}

fn parse_marker(path: &Path, text: &str) -> Result<Creation, OpenError> {
    let damaged =
        || OpenError::damaged(path.join(MARKER), None, "it does not read like Semel's own marker");
    let rest = text.strip_prefix("semel embedded store, format ").ok_or_else(damaged)?;
    let (format, state) = rest.trim_end().split_once(", ").ok_or_else(damaged)?;
    let format: u32 = format.parse().map_err(|_| damaged())?;
    if format > FORMAT {
        return Err(OpenError::Newer { path: path.to_owned(), found: format, known: FORMAT });
    }
    match state {
        "created" => Ok(Creation::Finished),
        "being created" => Ok(Creation::Started),
        _ => Err(damaged()),
    }
}

fn write_marker(path: &Path, state: Creation) -> Result<(), OpenError> {
    let state = match state {
        Creation::Started => "being created",
        Creation::Finished => "created",
    };
    let text = format!("semel embedded store, format {FORMAT}, {state}\n");
    replace(path, MARKER_NEW, MARKER, &text)
}

/// Replaces a file in one step that survives a power cut.
fn replace(path: &Path, new: &str, name: &str, text: &str) -> Result<(), OpenError> {
    let new = path.join(new);
    let write = || {
        let mut file = File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path.join(name))
    };
    write().map_err(|error| OpenError::io(&new, error))?;
    sync_directory(path)
}

/// Syncs a directory and those below it.
fn sync_tree(path: &Path) -> Result<(), OpenError> {
    let entries = fs::read_dir(path).map_err(|error| OpenError::io(path, error))?;
    for entry in entries {
        let entry = entry.map_err(|error| OpenError::io(path, error))?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            sync_tree(&entry.path())?;
        }
    }
    sync_directory(path)
}

/// When the database's log was last written to, by the times of its files.
fn last_write(database: &Path) -> Option<Timestamp> {
    let paths = fs::read_dir(database).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let logs = paths.filter(|path| path.extension().is_some_and(|extension| extension == "jnl"));
    logs.filter_map(|path| modified(&path)).max()
}

fn modified(path: &Path) -> Option<Timestamp> {
    let time = fs::metadata(path).ok()?.modified().ok()?;
    Some(Timestamp::ZERO.plus(time.duration_since(UNIX_EPOCH).ok()?))
}

fn sync_directory(path: &Path) -> Result<(), OpenError> {
    File::open(path)
        .and_then(|directory| directory.sync_all())
        .map_err(|error| OpenError::io(path, error))
}

#[cfg(test)]
mod tests;
