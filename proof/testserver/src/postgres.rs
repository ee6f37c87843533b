//! `PostgreSQL`.
//!
//! | in the directory | what |
//! |---|---|
//! | `data/` | the cluster, and the server's socket |
//! | `log` | the server's log |
//! | `password` | the superuser's |
//! | `server.crt`, `server.key` | with TLS |
//! | `lock` | locked by the process that has the server |

mod binaries;
mod cluster;
mod databases;
mod faults;
mod launch;
mod options;
mod sql;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, OnceLock};

use rustix::process::Signal;

use crate::Error;
use crate::account::Account;
use crate::cleanup::Cleanup;
use crate::directory::DataDirectory;
use crate::process::Process;

pub use options::Options;

use binaries::Binaries;

/// The superuser, and the database that is there from the start.
const NAME: &str = "semel";

/// A private `PostgreSQL` server. It ends when this is dropped, or else with this process.
///
/// It listens on 127.0.0.1 alone, always asks for a password, and has `PostgreSQL`'s own settings
/// but for what [`Options`] say: what is committed is on the disk.
///
/// ```no_run
/// use semel_testserver::Postgres;
///
/// let server = Postgres::start()?;
/// server.psql("create table greetings as select 'hello' as text")?;
/// server.kill()?;
/// server.start_again()?;
/// assert_eq!(server.psql("select text from greetings")?, "hello");
/// # Ok::<(), semel_testserver::Error>(())
/// ```
pub struct Postgres {
    binaries: Binaries,
    account: Option<Account>,
    settings: Vec<(String, String)>,
    port: u16,
    password: String,
    certificate: Option<PathBuf>,
    process: Process,
    /// Held while a database is made.
    making: Mutex<()>,
    databases: AtomicU64,
    // Dropped in this order: a cleanup process that still runs would see its directory vanish.
    _cleanup: Cleanup,
    directory: DataDirectory,
}

// === impl Postgres ===

impl Postgres {
    /// Starts a server with a new cluster in a temporary directory.
    ///
    /// It takes between one and two seconds. Tests that can share a server use
    /// [`shared`](Self::shared).
    pub fn start() -> Result<Self, Error> {
        Self::options().start()
    }

    /// How a server is to be started.
    pub fn options() -> Options {
        Options::default()
    }

    /// The one server of this process, for tests that each take a
    /// [`new_database`](Self::new_database).
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        SHARED.get_or_init(|| {
            // The tests of a large machine, with a pool each, need more than 100.
            let options = Self::options().setting("max_connections", "500");
            options.start().unwrap_or_else(|error| panic!("no shared PostgreSQL server: {error}"))
        })
    }

    /// `postgres://semel:PASSWORD@127.0.0.1:PORT/semel`.
    pub fn url(&self) -> String {
        self.url_of(NAME)
    }

    /// The port. It stays the same when the server is started again.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The password of the superuser `semel`.
    pub fn password(&self) -> &str {
        &self.password
    }

    /// Where the server keeps everything: the cluster is in `data`, its log in `log`.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// The certificate to trust, if the server was started with [`Options::tls`].
    pub fn certificate(&self) -> Option<&Path> {
        self.certificate.as_deref()
    }

    /// A program of the same version as the server, such as `pgbench`.
    pub fn bin(&self, name: &str) -> PathBuf {
        self.binaries.get(name)
    }

    fn url_of(&self, database: &str) -> String {
        format!("postgres://{NAME}:{}@127.0.0.1:{}/{database}", self.password, self.port)
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres")
            .field("port", &self.port)
            .field("directory", &self.directory.path())
            .finish_non_exhaustive()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.process.end(Signal::QUIT);
        self.reclaim();
    }
}
