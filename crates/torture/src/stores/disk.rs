//! The directory of an embedded store, on a small disk that can be filled up.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::ensure;

use crate::stop;

const BYTES: u64 = 1 << 30;
const FILLER: &str = "filler";

pub(super) struct Disk {
    directory: PathBuf,
    /// Why it cannot be filled up; else it is a mount.
    missing: Option<String>,
}

// === impl Disk ===

impl Disk {
    /// A file system in memory, if this process may mount one.
    pub(super) fn new(scratch: &Path) -> anyhow::Result<Self> {
        let directory = scratch.join("disk");
        fs::create_dir(&directory)?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={BYTES}"), "tmpfs"]).arg(&directory);
        let missing = run(&mut mount).err().map(|error| format!("needs root to mount: {error}"));
        Ok(Self { directory, missing })
    }

    pub(super) fn url(&self) -> String {
        format!("embedded:{}", self.directory.join("store").display())
    }

    pub(super) fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }

    /// Leaves no space for so long.
    pub(super) fn full_for(&self, lasts: Duration) -> anyhow::Result<()> {
        ensure!(self.missing.is_none(), "the disk cannot be filled up");
        let filler = self.directory.join(FILLER);
        fill(&filler)?;
        stop::sleep(lasts);
        fs::remove_file(filler)?;
        Ok(())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.missing.is_some() {
            return;
        }
        // A process that was just killed may hold it for a moment longer.
        for _ in 0..100 {
            if run(Command::new("umount").arg(&self.directory)).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        eprintln!("{} is still in use and stays mounted", self.directory.display());
    }
}

fn fill(filler: &Path) -> anyhow::Result<()> {
    let mut file = File::create(filler)?;
    for piece in [1 << 20, 4 << 10] {
        let zeros = vec![0; piece];
        while file.write_all(&zeros).is_ok() {}
    }
    Ok(())
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}", said.trim());
    Ok(())
}
