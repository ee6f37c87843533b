//! The check of fjall's trees: one directory per keyspace, `keyspaces/<number>`.
//!
//! A tree is a set of tables, listed in its manifest `v<version>`; `current` names the manifest and
//! holds its checksum. Fjall never compares that checksum. It deletes every table that the
//! manifest does not list, and every keyspace without a `current`: one flipped bit can make it
//! delete acknowledged records without a word, or ask for more memory than there is.
//!
//! ```text
//! current  = version:u64 xxh3:u128 0:u8           the hash is that of the whole manifest
//! manifest = section... contents trailer
//! contents = "TOC!" count:u32 (start:u64 len:u64 name_len:u16 name){count}
//! trailer  = "SFA!" 1:u8 0:u8 xxh3:u128 contents_start:u64 contents_len:u64
//! "tables" = level_count:u8 (run_count:u8 (count:u32 (id:u64 0:u8 xxh3:u128 seqno:u64){count})...)...
//! ```
//! Integers are little-endian. The blocks of a table have checksums of their own, which fjall
//! does compare; here a table only has to exist.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_128;

use super::little_endian;
use crate::OpenError;

/// The keyspaces of every store: fjall's own, and the records.
const ALWAYS: [&str; 2] = ["0", "1"];

const TRAILER_LEN: usize = 38;
const CONTENTS_START: usize = 22;
const CONTENTS_HEAD_LEN: usize = 8;
const SECTION_HEAD_LEN: usize = 18;
/// What a table's entry holds behind its id.
const TABLE_REST_LEN: usize = 25;

/// Checks that every tree is as fjall last wrote it.
pub(super) fn check(database: &Path) -> Result<(), OpenError> {
    let keyspaces = database.join("keyspaces");
    for id in ALWAYS {
        let tree = keyspaces.join(id);
        if !tree.try_exists().map_err(|error| OpenError::io(&tree, error))? {
            return Err(missing(tree));
        }
    }
    let io_error = |error| OpenError::io(&keyspaces, error);
    for entry in fs::read_dir(&keyspaces).map_err(io_error)? {
        let entry = entry.map_err(io_error)?;
        // Fjall skips files here, and only directories that are trees can stay.
        if !entry.file_type().map_err(io_error)?.is_file() {
            check_tree(&entry.path())?;
        }
    }
    Ok(())
}

fn check_tree(tree: &Path) -> Result<(), OpenError> {
    let current = tree.join("current");
    let Some((version, checksum)) = parse_current(&read(&current)?) else {
        return Err(OpenError::damaged(current, None, "it does not read like fjall's own"));
    };
    let path = tree.join(format!("v{version}"));
    let manifest = read(&path).map_err(|error| match error {
        OpenError::Damaged { file, at, what } => {
            OpenError::damaged(file, at, format!("{what}, though {} names it", current.display()))
        }
        other => other,
    })?;
    if xxh3_128(&manifest) != checksum {
        let what = format!("its checksum is not the one in {}", current.display());
        return Err(OpenError::damaged(path, None, what));
    }
    let Some(tables) = table_ids(&manifest) else {
        return Err(OpenError::damaged(path, None, "its list of tables cannot be read"));
    };
    tables.into_iter().try_for_each(|id| check_table(tree.join("tables").join(id.to_string())))
}

fn check_table(path: PathBuf) -> Result<(), OpenError> {
    match path.try_exists() {
        Ok(true) => Ok(()),
        Ok(false) => Err(missing(path)),
        Err(error) => Err(OpenError::io(&path, error)),
    }
}

/// Reads a small file that must exist.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, OpenError> {
    fs::read(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => missing(path.to_owned()),
        _ => OpenError::io(path, error),
    })
}

fn missing(path: PathBuf) -> OpenError {
    OpenError::damaged(path, None, "it is missing")
}

/// The number of the manifest and its checksum.
fn parse_current(bytes: &[u8]) -> Option<(u64, u128)> {
    let (version, rest) = bytes.split_first_chunk()?;
    let (checksum, rest) = rest.split_first_chunk()?;
    (rest == [0]).then_some((u64::from_le_bytes(*version), u128::from_le_bytes(*checksum)))
}

/// The tables that a manifest lists.
fn table_ids(manifest: &[u8]) -> Option<Vec<u64>> {
    let mut rest = Bytes(section(manifest, b"tables")?);
    let mut ids = Vec::new();
    for _level in 0..rest.number(1)? {
        for _run in 0..rest.number(1)? {
            for _table in 0..rest.number(4)? {
                ids.push(rest.number(8)?);
                rest.take(TABLE_REST_LEN)?;
            }
        }
    }
    rest.0.is_empty().then_some(ids)
}

fn section<'m>(manifest: &'m [u8], wanted: &[u8]) -> Option<&'m [u8]> {
    let trailer = &manifest[manifest.len().checked_sub(TRAILER_LEN)?..];
    let start = little_endian(&trailer[CONTENTS_START..][..8]);
    let mut contents = Bytes(manifest.get(usize::try_from(start).ok()?..)?);
    let head = contents.take(CONTENTS_HEAD_LEN)?;
    for _section in 0..little_endian(&head[4..]) {
        let head = contents.take(SECTION_HEAD_LEN)?;
        let name = contents.take(usize::try_from(little_endian(&head[16..])).ok()?)?;
        if name == wanted {
            let start = usize::try_from(little_endian(&head[..8])).ok()?;
            let len = usize::try_from(little_endian(&head[8..16])).ok()?;
            return manifest.get(start..start.checked_add(len)?);
        }
    }
    None
}

/// What is left to read.
struct Bytes<'b>(&'b [u8]);

// === impl Bytes ===

impl<'b> Bytes<'b> {
    fn take(&mut self, len: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self, len: usize) -> Option<u64> {
        self.take(len).map(little_endian)
    }
}

#[cfg(test)]
mod tests;
