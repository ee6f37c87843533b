//! The check of fjall's log: one or more journals, `<number>.jnl`.
//!
//! On open fjall takes nearly every kind of damage in a journal for the end of the log, cuts
//! the file there and starts: acknowledged batches behind the damage are gone without a word. A torn
//! *last* batch is what a crash leaves and may be cut; a broken batch with intact ones behind it is
//! not, and this module tells the two apart.
//!
//! A journal is created as 64 MiB of zeros and filled from the front. Opening cuts the zeros off and
//! appends from there on, so no batch ever follows zeros. When it is long enough it is synced and
//! sealed, and the next number begins; the oldest is removed first.
//!
//! # What remains possible
//! * Start markers are not hashed. A wrong count always breaks the batch; a wrong seqno shows only
//!   as a step back, so one between its neighbours' stays unnoticed, and so does a larger one in the
//!   newest batch of all. The strictness needs a keyspace that is never cleared or deleted:
//!   fjall could forget the highest seqno then, and count from lower again.
//! * If the *last* batches are lost (overwritten, zeroed, cut off), nothing intact follows: that
//!   looks like a crash, and no reader of this format can know better.
//! * Batches that were never synced may reach the disk in any order. A power cut can then leave a
//!   hole with intact batches behind it, none of them acknowledged as durable: still damage.
//! * A value holding the bytes of a valid batch, inside a batch that a crash tore, looks like a
//!   batch that follows: refused. Copies of this store's own journals have old seqnos and are
//!   recognised; a deliberate forgery is not.
//!
//! Every doubt ends in a refusal, as refusing can be undone and cutting can not. Memory is bounded
//! by three windows, whatever the length of the file.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::batch::{Batch, Stop};
use super::search::{Found, find_intact};
use super::window::{WINDOW, Window};
use crate::OpenError;

static ZEROS: [u8; WINDOW] = [0; WINDOW];

/// An incomplete last batch with nothing intact behind it: what a crash in mid-write leaves.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TornTail {
    pub(super) path: PathBuf,
    /// Where the batch starts, and what counts ends.
    pub(super) end: u64,
    pub(super) what: &'static str,
}

/// What a look at one journal found.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// Every byte belongs to a complete batch or to the zeroed, preallocated rest.
    Clean { batches: u64, end: u64 },
    /// See [`TornTail`].
    Torn { batches: u64, end: u64, what: &'static str },
    /// Cutting the log at `at`, where the broken batch starts, would lose acknowledged records.
    Damaged { at: u64, what: &'static str, because: Evidence },
}

/// Why a batch that is not as it should be is no torn end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Evidence {
    /// An intact batch starts behind it.
    Followed(u64),
    /// The batch is intact itself; it only cannot be where it is.
    Intact,
    /// A newer journal has batches: this one was complete and synced when it was sealed.
    Sealed,
    /// See [`Found::TooMuch`].
    SearchGivenUp,
}

/// Checks every journal, oldest first. Only the newest with any batch may have a torn tail, which is
/// returned.
///
/// An empty one may come after it: a database that failed in the middle of a batch, for want of
/// space, takes no more batches but may still seal its journal and begin the next.
pub(super) fn check(database: &Path) -> Result<Option<TornTail>, OpenError> {
    let journals = list(database)?;
    if journals.is_empty() {
        // Fjall would start a new log and count seqnos from 0, below all that is stored.
        return Err(OpenError::damaged(database.to_owned(), None, "its log (*.jnl) is missing"));
    }
    refuse_gap(database, &journals)?;
    let mut last_seqno = None;
    let mut tail: Option<TornTail> = None;
    for (_, path) in journals {
        let verdict = File::open(&path)
            .and_then(|file| walk(&file, &mut last_seqno))
            .map_err(|error| OpenError::io(&path, error))?;
        if let Some(torn) = &tail
            && !matches!(verdict, Verdict::Clean { batches: 0, .. })
        {
            return Err(damaged(&torn.path, torn.end, torn.what, Evidence::Sealed));
        }
        match verdict {
            Verdict::Clean { .. } => {}
            Verdict::Torn { end, what, .. } => tail = Some(TornTail { path, end, what }),
            Verdict::Damaged { at, what, because } => {
                return Err(damaged(&path, at, what, because));
            }
        }
    }
    Ok(tail)
}

/// The journals by number. A name that fjall would trip over is refused here, with the name.
fn list(database: &Path) -> Result<Vec<(u64, PathBuf)>, OpenError> {
    let io_error = |error| OpenError::io(database, error);
    let mut found = Vec::new();
    for entry in fs::read_dir(database).map_err(io_error)? {
        let path = entry.map_err(io_error)?.path();
        if !path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("jnl")) {
            continue;
        }
        let Some(id) = journal_id(&path) else {
            return Err(OpenError::damaged(path, None, "it is not named like a log"));
        };
        found.push((id, path));
    }
    found.sort();
    Ok(found)
}

fn journal_id(path: &Path) -> Option<u64> {
    let id = path.file_stem()?.to_str()?.parse().ok()?;
    (path.file_name()? == format!("{id}.jnl").as_str()).then_some(id)
}

/// Numbers rise by one and the oldest goes first, so a power cut that undoes removals brings the
/// newest of the removed back before any older one: a journal missing between two was not removed
/// by fjall.
fn refuse_gap(database: &Path, journals: &[(u64, PathBuf)]) -> Result<(), OpenError> {
    for pair in journals.windows(2) {
        let ((older, _), (newer, _)) = (&pair[0], &pair[1]);
        if older + 1 != *newer {
            return Err(OpenError::damaged(
                database.join(format!("{}.jnl", older + 1)),
                None,
                format!("it is missing between {older}.jnl and {newer}.jnl"),
            ));
        }
    }
    Ok(())
}

/// Walks one journal. `last_seqno` is carried from file to file.
fn walk(file: &File, last_seqno: &mut Option<u64>) -> io::Result<Verdict> {
    let len = file.metadata()?.len();
    let mut window = Window::new(file, len);
    let (mut at, mut batches) = (0, 0);
    loop {
        if rest_is_zero(&mut window, at)? {
            return Ok(Verdict::Clean { batches, end: at });
        }
        let batch = match Batch::read(&mut window, at, None) {
            Ok(batch) => batch,
            Err(Stop::Io(error)) => return Err(error),
            Err(Stop::Broken(what)) => {
                let because = match find_intact(file, len, at + 1, *last_seqno)? {
                    Found::Nothing => {
                        return Ok(Verdict::Torn { batches, end: at, what });
                    }
                    Found::Batch(next) => Evidence::Followed(next),
                    Found::TooMuch => Evidence::SearchGivenUp,
                };
                return Ok(Verdict::Damaged { at, what, because });
            }
        };
        if let Some(what) = inconsistency(&batch, *last_seqno) {
            return Ok(Verdict::Damaged { at, what, because: Evidence::Intact });
        }
        *last_seqno = Some(batch.seqno);
        at = batch.end();
        batches += 1;
    }
}

/// What is wrong with a batch whose bytes are right.
fn inconsistency(batch: &Batch, last_seqno: Option<u64>) -> Option<&'static str> {
    if batch.compressed {
        // Built without compression, fjall takes it for the end of the log.
        return Some("a compressed value, which Semel never writes");
    }
    (!batch.rises_above(last_seqno)).then_some("a sequence number that does not rise")
}

fn rest_is_zero(window: &mut Window<'_>, mut at: u64) -> io::Result<bool> {
    loop {
        let bytes = window.bytes(at, 1)?;
        if bytes.is_empty() {
            return Ok(true);
        }
        if bytes[0] != 0 || *bytes != ZEROS[..bytes.len()] {
            return Ok(false);
        }
        at += bytes.len() as u64;
    }
}

fn damaged(path: &Path, at: u64, what: &str, because: Evidence) -> OpenError {
    let because = match because {
        Evidence::Followed(next) => format!("the next intact batch starts at byte {next}"),
        Evidence::Intact => "the batch itself is intact".to_owned(),
        Evidence::Sealed => "a newer log exists, so this one was complete".to_owned(),
        Evidence::SearchGivenUp => "what follows may hold intact batches".to_owned(),
    };
    let what = format!(
        "{what}, and {because}, so it is not what a crash leaves; \
         `truncate -s {at} '{}'` gives up this batch and all that follows in the file",
        path.display()
    );
    OpenError::damaged(path.to_owned(), Some(at), what)
}

#[cfg(test)]
mod tests;
