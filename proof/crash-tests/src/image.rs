//! File systems of their own: a loop-mounted image for power cuts, and a small one to fill up.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tempfile::TempDir;

/// A mounted file system. Unmounted when dropped.
pub struct Mount {
    point: TempDir,
    backing: Option<PathBuf>,
}

/// Whether this process can mount file systems; otherwise the reason, which must be printed.
pub fn can_mount() -> Result<(), String> {
    match Mount::memory(1 << 20) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("it needs root and the right to mount: {error:#}")),
    }
}

// === impl Mount ===

impl Mount {
    /// A new ext4 file system of `bytes` in the file `backing`.
    pub fn ext4(backing: &Path, bytes: u64) -> anyhow::Result<Self> {
        std::fs::File::create(backing)?.set_len(bytes)?;
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(backing))?;
        Self::image(backing)
    }

    /// The file system in the file `backing`.
    pub fn image(backing: &Path) -> anyhow::Result<Self> {
        let point = tempfile::tempdir()?;
        run(Command::new("mount").args(["-o", "loop"]).arg(backing).arg(point.path()))?;
        Ok(Self { point, backing: Some(backing.to_owned()) })
    }

    /// A file system of `bytes` in memory.
    pub fn memory(bytes: u64) -> anyhow::Result<Self> {
        let point = tempfile::tempdir()?;
        let size = format!("size={bytes}");
        run(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(point.path()))?;
        Ok(Self { point, backing: None })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.point.path()
    }

    /// Copies the device as it is now, which is what a power cut leaves of it.
    pub fn cut(&self, copy: &Path) -> anyhow::Result<()> {
        let backing = self.backing.as_ref().context("it has no device")?;
        run(Command::new("cp").arg("--sparse=always").arg(backing).arg(copy))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // A worker of an engine that was just closed may hold a file for a moment longer.
        for _ in 0..100 {
            if run(Command::new("umount").arg(self.point.path())).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        eprintln!("{} is still in use and stays mounted", self.point.path().display());
    }
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}", stderr.trim());
    Ok(())
}
