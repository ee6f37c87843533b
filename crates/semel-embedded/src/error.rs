use std::io;
use std::path::{Path, PathBuf};

use semel_store::{StoreError, is_exhaustion, lacks_descriptors};

/// Why a store could not be opened. Each message has a cure; none of these errors has changed the files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has it open.
    #[error(
        "{} is in use{}; stop that process first, or give each process a directory of its own",
        path.display(),
        pid.map(|pid| format!(" by process {pid}")).unwrap_or_default()
    )]
    Locked {
        /// The directory.
        path: PathBuf,
        /// The other process, if it left its id.
        pid: Option<u32>,
    },
    /// There is something in the directory that Semel did not put there.
    #[error(
        "{} is not a Semel store: it contains {found:?}; name an empty or a new directory",
        path.display()
    )]
    NotOurs {
        /// The directory.
        path: PathBuf,
        /// A thing in it.
        found: String,
    },
    /// The path names a file.
    #[error("{} is not a directory; name a new or an empty one", path.display())]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// A later version of Semel wrote it.
    #[error(
        "{} has format {found}, and this version of Semel knows formats up to {known}; use the newer version that wrote it",
        path.display()
    )]
    Newer {
        /// The directory.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The newest format known here.
        known: u32,
    },
    /// The operating system refuses access.
    #[error(
        "no permission for {}; let the user that runs Semel read and write it (chown -R USER DIR)",
        path.display()
    )]
    NoPermission {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// There is no room for the files a store needs.
    #[error("no space left for {}; free some and start again", path.display())]
    DiskFull {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// This process has no file descriptor or memory left. It is no statement about the files.
    #[error(
        "this process has no file descriptor or memory left for {}: {source}; let it have more (LimitNOFILE= of \
         systemd, ulimit -n), or have fewer connections",
        path.display()
    )]
    Exhausted {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Files are not as they were written.
    #[error(
        "{} is damaged{}: {what}; restore the directory from a backup, or move it away and start empty (every key then counts as new)",
        file.display(),
        at.map(|at| format!(" at byte {at}")).unwrap_or_default()
    )]
    Damaged {
        /// The file, or the directory if fjall did not say which file.
        file: PathBuf,
        /// Where in the file.
        at: Option<u64>,
        /// What is wrong with it.
        what: String,
    },
    /// Anything else that the operating system refused.
    #[error("cannot use {}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

// === impl OpenError ===

impl OpenError {
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        if is_exhaustion(&source) {
            return Self::Exhausted { path, source };
        }
        match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::NoPermission { path, source }
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::DiskFull { path, source }
            }
            io::ErrorKind::NotADirectory => Self::NotADirectory { path },
            _ => Self::Io { path, source },
        }
    }

    /// The process cannot open files now, and the original error of the system was lost.
    pub(crate) fn exhausted(path: &Path, what: &str) -> Self {
        Self::Exhausted { path: path.to_owned(), source: io::Error::other(what.to_owned()) }
    }

    pub(crate) fn damaged(file: PathBuf, at: Option<u64>, what: impl Into<String>) -> Self {
        Self::Damaged { file, at, what: what.into() }
    }

    /// The meaning of fjall's error about its files in `path`.
    pub(crate) fn fjall(path: &Path, error: fjall::Error) -> Self {
        match error {
            fjall::Error::Io(source) | fjall::Error::Storage(fjall::LsmError::Io(source)) => {
                match source.kind() {
                    // A damaged file named something that does not exist.
                    io::ErrorKind::InvalidInput
                    | io::ErrorKind::InvalidData
                    | io::ErrorKind::UnexpectedEof
                    | io::ErrorKind::NotFound => {
                        Self::damaged(path.to_owned(), None, format!("a file misleads: {source}"))
                    }
                    _ => Self::io(path, source),
                }
            }
            fjall::Error::Locked => Self::Locked { path: path.to_owned(), pid: None },
            // Fjall may stumble over a file that it could not open, and forget why.
            other if lacks_descriptors() => Self::exhausted(path, &other.to_string()),
            other => Self::damaged(path.to_owned(), None, other.to_string()),
        }
    }

    /// The same, for callers of the store.
    pub(crate) fn to_store_error(&self) -> StoreError {
        let what = self.to_string();
        match self {
            Self::Damaged { .. } => StoreError::Corrupt { what },
            Self::DiskFull { .. } | Self::Io { .. } => StoreError::unavailable(what),
            Self::Exhausted { .. } => StoreError::not_asked(what),
            _ => StoreError::Misconfigured { what },
        }
    }
}

impl From<OpenError> for StoreError {
    fn from(error: OpenError) -> Self {
        error.to_store_error()
    }
}
