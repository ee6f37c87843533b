//! The directory of an embedded store, on a small disk that can be filled up.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::ensure;
use semel_testserver::Mount;

use crate::stop;

const BYTES: u64 = 1 << 30;
const FILLER: &str = "filler";

pub(super) struct Disk {
    directory: PathBuf,
    /// If there is none, why: then it cannot be filled up.
    mount: Result<Mount, String>,
}

// === impl Disk ===

impl Disk {
    /// A file system in memory, if this process may mount one.
    pub(super) fn new(scratch: &Path) -> anyhow::Result<Self> {
        let directory = scratch.join("disk");
        fs::create_dir(&directory)?;
        let mount = Mount::in_memory(&directory, BYTES)
            .map_err(|error| format!("needs root to mount: {error}"));
        Ok(Self { directory, mount })
    }

    pub(super) fn url(&self) -> String {
        format!("embedded:{}", self.directory.join("store").display())
    }

    pub(super) fn missing(&self) -> Option<&str> {
        self.mount.as_ref().err().map(String::as_str)
    }

    /// Leaves no space for so long.
    pub(super) fn full_for(&self, lasts: Duration) -> anyhow::Result<()> {
        ensure!(self.mount.is_ok(), "the disk cannot be filled up");
        let filler = self.directory.join(FILLER);
        fill(&filler)?;
        stop::sleep(lasts);
        fs::remove_file(filler)?;
        Ok(())
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

#[cfg(test)]
mod tests;
