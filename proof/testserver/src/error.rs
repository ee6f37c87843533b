use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why a server operation failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A program is not installed.
    #[error("no {what} in {looked_in}; install it with: sudo apt-get install {package}")]
    NotInstalled {
        /// What is missing.
        what: String,
        /// Where it was looked for.
        looked_in: String,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// We are root, the server must not be, and there is no other user.
    #[error("servers do not run as root, and there is no user {}; add one", names.join(" or "))]
    NoAccount {
        /// The users that were looked for.
        names: &'static [&'static str],
    },
    /// The user that runs the server cannot get to its directory.
    #[error(
        "the user {uid}, which runs the server, has no access to {}; allow it (chmod o+x) or name another directory",
        path.display()
    )]
    NoPassage {
        /// The user.
        uid: u32,
        /// The directory that shuts them out.
        path: PathBuf,
    },
    /// Another process has a server in that directory.
    #[error("{} is in use by another process; give each a directory of its own", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The server did not start.
    #[error("the server did not start ({why}); its log ends with:\n{log}")]
    NotStarted {
        /// What was seen of it.
        why: String,
        /// The last lines of its log.
        log: String,
    },
    /// A program failed.
    #[error("{what} failed: {output}")]
    Failed {
        /// The program.
        what: String,
        /// Its output.
        output: String,
    },
    /// Something took too long, and was given up.
    #[error("{what} took longer than {limit:?}")]
    TimedOut {
        /// What.
        what: String,
        /// The limit.
        limit: Duration,
    },
    /// The server is down.
    #[error("the server does not run; start it with start_again")]
    Down,
    /// The server runs already.
    #[error("the server runs already; stop or kill it first")]
    Up,
    /// The process is not one of this server's.
    #[error("process {pid} does not belong to this server")]
    NotOurs {
        /// Its id.
        pid: i32,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

// === impl Error ===

impl Error {
    /// For `map_err`: adds `path`.
    pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}
