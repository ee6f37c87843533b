//! A file system in memory, for tests that fill it up.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::Error;
use crate::cleanup::Cleanup;
use crate::run::run;

const LIMIT: Duration = Duration::from_mins(1);

/// A mounted file system. Unmounted when dropped, or when the process that holds it ends: its files are
/// then no longer reachable, and its memory is free once no process has one of them open.
#[derive(Debug)]
pub struct Mount {
    path: PathBuf,
    /// Dismissed last.
    _cleanup: Cleanup,
}

// === impl Mount ===

impl Mount {
    /// Room for so many bytes at `path`, a directory. Needs root.
    pub fn in_memory(path: &Path, bytes: u64) -> Result<Self, Error> {
        let path = path.canonicalize().map_err(Error::at(path))?;
        // Before there is anything to clear up, so that nothing is left whenever this process ends.
        let cleanup = Cleanup::of_mount(&path)?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"]).arg(&path);
        run("mount", mount, "", LIMIT)?;
        Ok(Self { path, _cleanup: cleanup })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily: a process that was just killed may be at work there for a moment longer.
        let mut unmount = Command::new("umount");
        unmount.arg("--lazy").arg(&self.path);
        if let Err(error) = run("umount", unmount, "", LIMIT) {
            eprintln!("{} stays mounted: {error}", self.path.display());
        }
    }
}
