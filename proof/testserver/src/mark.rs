//! Finding the processes of a server, even those whose parent is gone.
//!
//! A server puts its mark into the command line of each of its processes. Command lines are readable, and
//! more reliable than parents: a process whose parent was killed has another one.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

use crate::Error;
use crate::token::token;

/// What all processes of one server have in their command lines, and no others.
#[derive(Debug)]
pub(crate) struct Mark(String);

// === impl Mark ===

impl Mark {
    /// Of a new server in `directory`. Fits into the 63 characters of a `PostgreSQL` name.
    pub(crate) fn new(directory: &Path) -> Result<Self, Error> {
        Ok(Self(format!("{}{}", Self::of_any(directory)?.0, token::<4>()?)))
    }

    /// The mark of every server in `directory`, started by any process.
    ///
    /// The number of a directory is not given to another while a process works in it.
    pub(crate) fn of_any(directory: &Path) -> Result<Self, Error> {
        let found = fs::metadata(directory).map_err(Error::at(directory))?;
        Ok(Self(format!("semel-{:x}-{:x}-", found.dev(), found.ino())))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The processes that have it. Not those that have ended and wait to be reaped.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        ids.filter(|pid| self.is_on(*pid)).collect()
    }

    pub(crate) fn is_on(&self, pid: i32) -> bool {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.windows(self.0.len()).any(|part| part == self.0.as_bytes())
    }

    /// Sends `signal` to all of them.
    pub(crate) fn signal(&self, signal: Signal) {
        for pid in self.processes() {
            send(pid, signal);
        }
    }
}

/// Sends `signal` to a process, which may be gone by now.
pub(crate) fn send(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, signal);
    }
}

/// Whether the process is frozen, or gone.
pub(crate) fn is_stopped(pid: i32) -> bool {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name before the state is in parentheses, and may have some itself.
    line.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['T', 'Z', 'X']))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::*;
    use crate::waiting::wait_for;

    #[test]
    fn processes_are_found_by_their_mark_until_they_end() {
        let directory = tempfile::tempdir().expect("a directory");
        let mark = Mark::new(directory.path()).expect("a mark");
        assert!(mark.as_str().len() < 64, "{mark:?}");
        let mut child = Command::new("sh")
            .args(["-c", "read -r _", mark.as_str()])
            .stdin(Stdio::piped())
            .spawn()
            .expect("a process");
        let pid = i32::try_from(child.id()).expect("an id");
        // For a moment between two programs a process has no command line.
        wait_for(Duration::from_mins(1), || (mark.processes() == [pid]).then_some(()))
            .expect("found");
        let any = Mark::of_any(directory.path()).expect("a mark");
        assert_eq!(any.processes(), [pid]);
        let other = Mark::new(directory.path()).expect("a mark");
        assert_eq!(other.processes(), []);
        mark.signal(Signal::STOP);
        wait_for(Duration::from_mins(1), || is_stopped(pid).then_some(())).expect("frozen");
        mark.signal(Signal::KILL);
        // It is not reaped yet.
        wait_for(Duration::from_mins(1), || mark.processes().is_empty().then_some(()))
            .expect("ended");
        child.wait().expect("reaped");
        assert!(is_stopped(pid));
    }
}
