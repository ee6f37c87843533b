//! A wall clock that tests can set, for servers that take it.
#![expect(clippy::disallowed_methods, reason = "a server's clock begins at the time of day")]

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tempfile::TempDir;

use crate::Error;
use crate::cleanup::Cleanup;
use crate::mark::Mark;
use crate::run::run;

const SHIM: &str = include_str!("clock/shim.c");
const LIMIT: Duration = Duration::from_mins(1);

/// A clock for one server or several: stood still and moved, or ahead of the machine's or behind it.
///
/// It is made by a small library that the server loads before its own. Needs `cc`.
#[derive(Debug)]
pub struct Clock {
    file: File,
    path: PathBuf,
    shim: PathBuf,
    // Dropped in this order: a cleanup process that still runs would see its directory vanish.
    _cleanup: Cleanup,
    _directory: TempDir,
}

// === impl Clock ===

impl Clock {
    /// One that shows the machine's time.
    pub fn new() -> Result<Self, Error> {
        let directory = tempfile::Builder::new().prefix("semel-clock-").tempdir();
        let directory = directory.map_err(Error::at(&std::env::temp_dir()))?;
        let [source, shim, path] =
            ["shim.c", "shim.so", "clock"].map(|name| directory.path().join(name));
        std::fs::write(&source, SHIM).map_err(Error::at(&source))?;
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-O2", "-o"]).arg(&shim).arg(&source);
        run("cc", cc, "", LIMIT)?;
        let open =
            OpenOptions::new().create(true).truncate(true).read(true).write(true).open(&path);
        let file = open.map_err(Error::at(&path))?;
        let cleanup = Cleanup::start(&Mark::new(directory.path())?, Some(directory.path()))?;
        let clock = Self { file, path, shim, _cleanup: cleanup, _directory: directory };
        clock.show(0, 0)?;
        Ok(clock)
    }

    /// Stops the clock, at this moment.
    pub fn freeze(&self) -> Result<(), Error> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.show(micros(now), 0)
    }

    /// Moves a clock that stands still.
    pub fn advance(&self, by: Duration) -> Result<(), Error> {
        let mut moment = [0; 8];
        self.file.read_exact_at(&mut moment, 0).map_err(Error::at(&self.path))?;
        self.show(i64::from_ne_bytes(moment) + micros(by), 0)
    }

    /// Lets it run, ahead of the machine's by so many milliseconds, or behind it.
    pub fn shift(&self, millis: i64) -> Result<(), Error> {
        self.show(0, millis * 1_000)
    }

    fn show(&self, moment: i64, offset: i64) -> Result<(), Error> {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&moment.to_ne_bytes());
        bytes[8..].copy_from_slice(&offset.to_ne_bytes());
        self.file.write_all_at(&bytes, 0).map_err(Error::at(&self.path))
    }

    /// What a server's environment must have to live by it.
    pub(crate) fn environment(&self) -> [(&'static str, &Path); 2] {
        [("LD_PRELOAD", &self.shim), ("SEMEL_CLOCK", &self.path)]
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
