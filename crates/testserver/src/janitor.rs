//! Clears up after a process that could not do so itself.
//!
//! The kernel tells a server that its holder is gone (`keeper`). That is not enough: a frozen process
//! does not hear of it, and nobody removes the directory. So a shell waits beside each server.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::Error;
use crate::keeper;
use crate::mark::Mark;
use crate::run::end;

const OF_SERVER: &str = include_str!("janitor.sh");
const OF_MOUNT: &str = include_str!("unmount.sh");

/// Waits for the end of this process. Dismissed when dropped: then there is nothing to clear up.
#[derive(Debug)]
pub(crate) struct Janitor {
    child: Child,
}

// === impl Janitor ===

impl Janitor {
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
            .args(["-c", script, "semel-janitor"])
            .envs(settings.iter().copied())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // What a terminal sends to all of its job is not meant for the janitor.
            .process_group(0);
        Ok(Self { child: keeper::spawn(shell)? })
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}
