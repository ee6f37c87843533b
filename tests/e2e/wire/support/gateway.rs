//! The gateway as its users start it.

use std::fs;
use std::ops::Deref;
use std::process::ExitStatus;

use rustix::process::{Resource, Rlimit, Signal, getrlimit, prlimit};
use semel_testkit::{Answer, Setup, Upstream};
use tempfile::TempDir;

use super::{Client, eventually};

const SEMEL: &str = env!("CARGO_BIN_EXE_semel");

/// A gateway that serves. Dropped, it is killed.
pub(crate) struct Gateway {
    process: semel_testkit::Gateway,
    _directory: Option<TempDir>,
}

// === impl Gateway ===

impl Gateway {
    /// In front of `upstream`, with these tables in its file.
    pub(crate) fn start(upstream: &Upstream, tables: &str) -> Self {
        Self::start_at(&upstream.url(), tables)
    }

    /// The same with lines before the tables.
    pub(crate) fn start_top(upstream: &Upstream, top: &str, tables: &str) -> Self {
        Self::start_at(&upstream.url(), &format!("{top}{tables}"))
    }

    pub(crate) fn start_at(upstream: &str, tables: &str) -> Self {
        Self::run(Setup::new(SEMEL), upstream, &format!("store = \"memory:\"\n{tables}"))
    }

    /// The same with files of the caller beside the configuration.
    pub(crate) fn start_in(directory: TempDir, upstream: &str, tables: &str) -> Self {
        let setup = Setup::new(SEMEL).in_directory(directory.path());
        let gateway = Self::run(setup, upstream, &format!("store = \"memory:\"\n{tables}"));
        Self { _directory: Some(directory), ..gateway }
    }

    /// With a store on disk. It may have so many file descriptors, if a number is given.
    pub(crate) fn start_embedded(
        upstream: &Upstream,
        descriptors: Option<usize>,
        tables: &str,
    ) -> Self {
        let mut setup = Setup::new(SEMEL);
        if let Some(max) = descriptors {
            setup = setup.by(&["sh", "-c", &format!("ulimit -n {max}; exec \"$0\" \"$@\"")]);
        }
        let text = format!("store = \"embedded:store\"\ndurability = \"process\"\n{tables}");
        Self::run(setup, &upstream.url(), &text)
    }

    fn run(setup: Setup, upstream: &str, text: &str) -> Self {
        let text = format!("upstream = \"{upstream}\"\nlog = \"warn\"\n{text}");
        Self { process: setup.configured(&text).start_unready(), _directory: None }
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.listen())
    }

    /// Waits until it has no more than `max` connections of clients.
    pub(crate) fn wait_for_connections(&self, max: u32) {
        eventually(&format!("at most {max} connections"), || {
            let connections = self.metrics().find("semel_connections", &[]).unwrap();
            (connections <= f64::from(max)).then_some(())
        });
    }

    /// One request on a connection of its own.
    pub(crate) fn ask(&self, bytes: impl AsRef<[u8]>) -> Answer {
        self.connect().ask(bytes)
    }

    /// Changes its file and sends SIGHUP.
    pub(crate) fn reload(&self, change: impl FnOnce(String) -> String) {
        self.setup().write(&change(self.setup().text()));
        self.signal(Signal::HUP);
    }

    /// Waits for its end.
    pub(crate) fn ended(self) -> ExitStatus {
        self.process.ended().0
    }

    /// Ends it at once, and waits for that.
    pub(crate) fn kill(self) {
        self.process.kill();
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.process.process.has_ended().is_none()
    }

    /// Resident memory, in KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        self.memory_kib("VmRSS")
    }

    /// Lets it have so many file descriptors from now on; what is open stays open.
    pub(crate) fn let_have_descriptors(&self, max: u64) {
        let before = getrlimit(Resource::Nofile);
        let limit = Rlimit { current: Some(max), maximum: before.maximum };
        prlimit(Some(self.process.process.pid()), Resource::Nofile, limit).unwrap();
    }

    /// Open files, sockets among them.
    pub(crate) fn open_files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.id())).unwrap().count()
    }

    /// Waits until no more than `max` files are open.
    pub(crate) fn wait_for_open_files(&self, max: usize) {
        eventually(&format!("at most {max} open files"), || {
            (self.open_files() <= max).then_some(())
        });
    }
}

impl Deref for Gateway {
    type Target = semel_testkit::Gateway;

    fn deref(&self) -> &Self::Target {
        &self.process
    }
}
