//! A bounded view into a journal of any length.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use xxhash_rust::xxh3::Xxh3;

/// How much of a file is in memory at a time.
pub(super) const WINDOW: usize = 32 * 1024;

/// The part of a file that is in memory.
pub(super) struct Window<'f> {
    file: &'f File,
    len: u64,
    start: u64,
    held: Vec<u8>,
    work: u64,
}

// === impl Window ===

impl<'f> Window<'f> {
    pub(super) fn new(file: &'f File, len: u64) -> Self {
        Self { file, len, start: 0, held: Vec::new(), work: 0 }
    }

    /// How many bytes the file has from `at` on.
    pub(super) fn left(&self, at: u64) -> u64 {
        self.len.saturating_sub(at)
    }

    /// How many bytes were read and hashed so far: what a search has cost.
    pub(super) fn work(&self) -> u64 {
        self.work
    }

    /// Counts a step that costs about as much as reading so many bytes.
    pub(super) fn count_step(&mut self) {
        self.work += 64;
    }

    /// What is in memory from `at` on: at least `least` bytes, fewer only at the end of the file.
    pub(super) fn bytes(&mut self, at: u64, least: usize) -> io::Result<&[u8]> {
        let left = self.left(at);
        let end = at + left.min(least as u64);
        if at < self.start || end > self.start + self.held.len() as u64 {
            self.load(at, at_most(left, WINDOW))?;
        }
        let skip = at_most(at - self.start, self.held.len());
        Ok(&self.held[skip..])
    }

    /// The `N` bytes at `at`, if the file has so many.
    pub(super) fn array<const N: usize>(&mut self, at: u64) -> io::Result<Option<[u8; N]>> {
        Ok(self.bytes(at, N)?.first_chunk().copied())
    }

    pub(super) fn hash(&mut self, range: Range<u64>) -> io::Result<u64> {
        let mut hash = Xxh3::new();
        let mut at = range.start;
        while at < range.end {
            let bytes = self.bytes(at, 1)?;
            let len = at_most(range.end - at, bytes.len());
            hash.update(&bytes[..len]);
            at += len as u64;
            self.work += len as u64;
        }
        Ok(hash.digest())
    }

    fn load(&mut self, at: u64, len: usize) -> io::Result<()> {
        self.held.resize(len, 0);
        let mut file = self.file;
        file.seek(SeekFrom::Start(at))?;
        file.read_exact(&mut self.held)?;
        self.start = at;
        self.work += len as u64;
        Ok(())
    }
}

fn at_most(len: u64, most: usize) -> usize {
    usize::try_from(len).map_or(most, |len| len.min(most))
}
