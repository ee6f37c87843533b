//! Processes that are gone when their owner is, panics included.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::procfs;

/// How long a process may take to start.
const START: Duration = Duration::from_secs(20);
/// The timeout of a stop.
const END: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

pub(crate) struct Running {
    what: String,
    child: Child,
    /// Where it writes what it says.
    log: PathBuf,
}

// === impl Running ===

impl Running {
    /// Starts it; what it says goes to a file.
    pub(crate) fn start(what: &str, log: PathBuf, command: &mut Command) -> anyhow::Result<Self> {
        let file = std::fs::File::create(&log)?;
        let child = command
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("{what} does not start"))?;
        Ok(Self { what: what.to_owned(), child, log })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it (kill -9), and waits until it is gone.
    pub(crate) fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Waits for something that shows that it is up.
    pub(crate) fn wait_for<T>(
        &mut self,
        mut sign: impl FnMut(&str) -> Option<T>,
    ) -> anyhow::Result<T> {
        let started = Instant::now();
        loop {
            let said = std::fs::read_to_string(&self.log).unwrap_or_default();
            if let Some(found) = sign(&said) {
                return Ok(found);
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("{} ended at its start ({status}) and said:\n{said}", self.what);
            }
            if started.elapsed() > START {
                bail!("{} is not up after {START:?} and said:\n{said}", self.what);
            }
            thread::sleep(PAUSE);
        }
    }

    fn ends_within(&mut self, timeout: Duration) -> bool {
        let started = Instant::now();
        while started.elapsed() < timeout {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return true;
            }
            thread::sleep(PAUSE);
        }
        false
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Its number may be another's by now.
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        // Its children first become known: nginx that is killed leaves its workers behind.
        let tree = procfs::tree(self.child.id());
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        if self.ends_within(END) {
            return;
        }
        for pid in tree.into_iter().filter_map(|pid| Pid::from_raw(pid.cast_signed())) {
            let _ = kill_process(pid, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// A log of its own for a process, in the scratch directory.
pub(crate) fn log_in(scratch: &Path, what: &str) -> PathBuf {
    scratch.join(format!("{}.log", what.replace(' ', "-")))
}
