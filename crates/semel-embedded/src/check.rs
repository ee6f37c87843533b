//! A read-only look at fjall's directory, taken before fjall opens it.
//!
//! Fjall (fjall 3.1.13) checks less than we need: where a file is missing it starts empty, and
//! what does not read as it should it takes for the leavings of a crash and deletes. Each of these
//! loses acknowledged records without a word. Here they are found first, and refused with the name
//! of the file. The rules hold for a directory that was created to its end, with a keyspace of
//! records that is never cleared or deleted and a log that is never compressed.

use std::fs::OpenOptions;
use std::path::Path;

use self::journal::TornTail;
use crate::OpenError;

mod batch;
mod journal;
mod manifest;
mod search;
mod window;

/// What the file `version` holds.
const FORMAT: &[u8] = b"FJL\x03";

/// What a read-only look at fjall's directory allows.
#[derive(Debug)]
#[must_use = "fjall refuses some torn tails: cut them first"]
pub(crate) struct Checked {
    tail: Option<TornTail>,
}

/// Looks at every file fjall would trust blindly. Changes nothing.
pub(crate) fn check(database: &Path) -> Result<Checked, OpenError> {
    let version = database.join("version");
    if manifest::read(&version)? != FORMAT {
        return Err(OpenError::damaged(version, None, "it does not read like fjall's own"));
    }
    manifest::check(database)?;
    Ok(Checked { tail: journal::check(database)? })
}

// === impl Checked ===

impl Checked {
    /// Cuts a torn last batch off the newest log and syncs it.
    ///
    /// Fjall itself refuses some kinds of torn batches (wrong hash with an intact end marker),
    /// which a power cut can leave.
    pub(crate) fn cut_torn_tail(self) -> Result<(), OpenError> {
        let Some(TornTail { path, end, what }) = self.tail else {
            return Ok(());
        };
        OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|file| {
                file.set_len(end)?;
                file.sync_all()
            })
            .map_err(|error| OpenError::io(&path, error))?;
        tracing::warn!(path = %path.display(), end, what, "cut a torn last batch off the log");
        Ok(())
    }
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests;
