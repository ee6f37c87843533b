//! How a server is to be started.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

use rustix::process::Signal;

use super::binaries::Binaries;
use super::{Postgres, cluster};
use crate::Error;
use crate::account::Account;
use crate::certificate;
use crate::cleanup::Cleanup;
use crate::directory::DataDirectory;
use crate::mark::Mark;
use crate::port;
use crate::process::{Process, STOP_LIMIT};
use crate::waiting::wait_for;

/// How a [`Postgres`] is to be started.
#[derive(Clone, Debug, Default)]
pub struct Options {
    settings: Vec<(String, String)>,
    directory: Option<PathBuf>,
    binaries: Option<PathBuf>,
    tls: bool,
}

// === impl Options ===

impl Options {
    /// A setting as in `postgresql.conf`, such as `max_connections`.
    ///
    /// Not those that this crate sees to: where the server listens, its TLS files, `cluster_name`.
    #[must_use]
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Keeps the cluster in this directory, and uses the one that is there.
    ///
    /// If we are root, the server runs as another user, and every directory above must let that
    /// user pass. Without this the cluster is in a temporary directory.
    #[must_use]
    pub fn directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.directory = Some(path.into());
        self
    }

    /// The directory with the programs, if not the version that is found by itself.
    #[must_use]
    pub fn binaries(mut self, path: impl Into<PathBuf>) -> Self {
        self.binaries = Some(path.into());
        self
    }

    /// Offers TLS, with a certificate of its own for 127.0.0.1 and `localhost`:
    /// [`Postgres::certificate`]. Needs `openssl`.
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// Starts the server, and waits until it can be used.
    pub fn start(self) -> Result<Postgres, Error> {
        let mut postgres = self.prepare()?;
        postgres.first_start(port::spare)?;
        postgres.make_first_database()?;
        Ok(postgres)
    }

    /// All but the server itself.
    pub(super) fn prepare(self) -> Result<Postgres, Error> {
        let binaries = Binaries::find(self.binaries.as_deref())?;
        let account = Account::for_servers()?;
        let directory = match &self.directory {
            Some(path) => DataDirectory::kept(path, account)?,
            None => DataDirectory::temporary("postgres", account)?,
        };
        end_leftovers(&directory)?;
        let mark = Mark::new(directory.path())?;
        let cleanup = Cleanup::start(&mark, directory.is_temporary().then(|| directory.path()))?;
        let password = cluster::make(&directory, &binaries, account)?;
        let certificate = self.tls.then(|| certificate::make(&directory, account)).transpose()?;
        Ok(Postgres {
            binaries,
            account,
            settings: self.settings,
            port: 0,
            password,
            certificate,
            making: Mutex::default(),
            databases: AtomicU64::default(),
            process: Process::new(mark),
            _cleanup: cleanup,
            directory,
        })
    }
}

/// Ends the server of a process that held the directory before us and has just died.
fn end_leftovers(directory: &DataDirectory) -> Result<(), Error> {
    let leftovers = Mark::of_any(directory.path())?;
    let gone = wait_for(STOP_LIMIT, || {
        leftovers.signal(Signal::QUIT);
        leftovers.signal(Signal::CONT);
        leftovers.processes().is_empty().then_some(())
    });
    gone.ok_or_else(|| Error::InUse { path: directory.path().to_owned() })
}
