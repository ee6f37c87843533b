//! Cleans up after a process that could not do so itself.
//!
//! The kernel signals a server when its holder is gone (`supervisor`). That is not enough: a frozen
//! process does not handle the signal, and the directory stays. So a shell waits beside each server.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::Error;
use crate::mark::Mark;
use crate::run::end;
use crate::supervisor;

const OF_SERVER: &str = include_str!("cleanup.sh");
const OF_MOUNT: &str = include_str!("unmount.sh");

/// Waits for the end of this process. Stopped when dropped: then there is nothing to clean up.
#[derive(Debug)]
pub(crate) struct Cleanup {
    child: Child,
}

// === impl Cleanup ===

impl Cleanup {
    /// For the processes with `mark`; and for `directory`, if it is to be removed.
    pub(crate) fn start(mark: &Mark, directory: Option<&Path>) -> Result<Self, Error> {
        let directory = directory.unwrap_or(Path::new(""));
        Self::wait_with(
            OF_SERVER,
            &[("MARK", mark.as_str().as_ref()), ("DIRECTORY", directory.as_ref())],
        )
    }

    /// For the file system at `path`.
    pub(crate) fn of_mount(path: &Path) -> Result<Self, Error> {
        Self::wait_with(OF_MOUNT, &[("MOUNT", path.as_ref())])
    }

    fn wait_with(script: &str, settings: &[(&str, &OsStr)]) -> Result<Self, Error> {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", script, "semel-cleanup"])
            .envs(settings.iter().copied())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Signals of a terminal to its whole job are not meant for the cleanup process.
            .process_group(0);
        Ok(Self { child: supervisor::spawn(shell)? })
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}
