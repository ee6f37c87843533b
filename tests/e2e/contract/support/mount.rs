//! A small disk of its own, to be filled up.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use tempfile::TempDir;

/// A file system in memory. Unmounted when dropped.
pub(crate) struct Mount {
    _mounted: semel_testserver::Mount,
    point: TempDir,
}

// === impl Mount ===

impl Mount {
    /// A file system of so many bytes, or why this machine does not give one.
    pub(crate) fn new(bytes: u64) -> Result<Self, String> {
        let point = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mounted = semel_testserver::Mount::in_memory(point.path(), bytes);
        let mounted =
            mounted.map_err(|error| format!("it needs root and the right to mount: {error}"))?;
        Ok(Self { _mounted: mounted, point })
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
