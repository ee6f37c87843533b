//! A small disk of its own, to be filled up.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::eventually;

/// A file system in memory. Unmounted when dropped.
pub(crate) struct Mount {
    point: TempDir,
}

// === impl Mount ===

impl Mount {
    /// A file system of so many bytes, or why this machine does not give one.
    pub(crate) fn new(bytes: u64) -> Result<Self, String> {
        let point = tempfile::tempdir().map_err(|error| error.to_string())?;
        let size = format!("size={bytes}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(point.path());
        let output = mount.output().map_err(|error| format!("mount: {error}"))?;
        if output.status.success() {
            return Ok(Self { point });
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("it needs root and the right to mount: {}", said.trim()))
    }

    pub(crate) fn path(&self) -> &Path {
        self.point.path()
    }

    /// Leaves no space.
    pub(crate) fn fill(&self) {
        let mut file = fs::File::create(self.point.path().join("filler")).expect("a filler");
        for piece in [1 << 20, 4 << 10] {
            let zeros = vec![0; piece];
            while file.write_all(&zeros).is_ok() {}
        }
    }

    /// Gives the space back.
    pub(crate) fn empty(&self) {
        fs::remove_file(self.point.path().join("filler")).expect("a filler");
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let mut unmount = Command::new("umount");
        unmount.arg(self.point.path());
        // A process that was just killed may hold it for a moment longer.
        eventually("the disk is free", || unmount.output().ok()?.status.success().then_some(()));
    }
}
