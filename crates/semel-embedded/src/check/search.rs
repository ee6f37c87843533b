//! The search for intact batches behind a broken one, which distinguishes a torn end from damage.

use std::fs::File;
use std::io;

use super::batch::{Batch, END_LEN, ITEM, START, START_LEN, Stop, is_end};
use super::window::Window;

/// What follows a broken batch.
pub(super) enum Found {
    Nothing,
    /// An intact batch starts here.
    Batch(u64),
    /// So many almost-batches that the search was given up: an intact one cannot be ruled out.
    TooMuch,
}

/// Looks for an intact batch newer than `floor` at any offset from `from` on.
///
/// Linear in practice: nothing is tried unless an end marker lies ahead, and hashing needs a
/// well-formed batch. Bytes made to defeat that hit the limit on work instead of taking forever.
pub(super) fn find_intact(
    file: &File,
    len: u64,
    from: u64,
    floor: Option<u64>,
) -> io::Result<Found> {
    let (mut scan, mut probe) = (Window::new(file, len), Window::new(file, len));
    let work_max = 16 * len + (64 << 20);
    let until = last_end_marker(&mut scan, from)?;
    let mut at = from;
    while at < until {
        let bytes = scan.bytes(at, START_LEN + 1)?;
        for (candidate, bytes) in (at..).zip(bytes.windows(START_LEN + 1)) {
            if bytes[0] != START || bytes[START_LEN] != ITEM {
                continue;
            }
            match Batch::read(&mut probe, candidate, floor) {
                Ok(_) => return Ok(Found::Batch(candidate)),
                Err(Stop::Io(error)) => return Err(error),
                Err(Stop::Broken(_)) if probe.work() > work_max => return Ok(Found::TooMuch),
                Err(Stop::Broken(_)) => {}
            }
        }
        at += bytes.len().saturating_sub(START_LEN).max(1) as u64;
    }
    Ok(Found::Nothing)
}

/// Where the last thing that looks like an end marker begins, or 0 if there is none from `from` on.
fn last_end_marker(window: &mut Window<'_>, from: u64) -> io::Result<u64> {
    let (mut at, mut last) = (from, 0);
    loop {
        let bytes = window.bytes(at, END_LEN)?;
        if bytes.len() < END_LEN {
            return Ok(last);
        }
        if let Some(i) = bytes.windows(END_LEN).rposition(is_end) {
            last = at + i as u64;
        }
        at += (bytes.len() - (END_LEN - 1)) as u64;
    }
}
