//! Fjall's batches, as they stand in a journal.
//!
//! ```text
//! batch = start item{count} end                   start = 1 count:u32 seqno:u64
//!                                                 end   = 3 xxh3:u64 "FJL\x03"
//! item  = 2 type:u8 compression:u8 keyspace:u64 key_len:u16 value_len:u32 stored_len:u32 key stored
//! ```
//! Integers are little-endian. The hash covers the items as stored; it does **not** cover the start
//! marker. Fjall knows one more kind of entry, which clears a keyspace; we never write it.

use std::io;
use std::ops::Range;

use super::little_endian;
use super::window::Window;

pub(super) const START: u8 = 1;
pub(super) const ITEM: u8 = 2;
pub(super) const END: u8 = 3;
pub(super) const TRAILER: [u8; 4] = *b"FJL\x03";
pub(super) const START_LEN: usize = 13;
pub(super) const ITEM_HEAD_LEN: usize = 21;
pub(super) const END_LEN: usize = 13;
/// The highest value type in a journal: 0 value, 1 tombstone, 2 weak tombstone.
const TYPE_MAX: u8 = 2;
const LZ4: u8 = 1;

/// A batch whose every byte behind the start marker is proven.
pub(super) struct Batch {
    pub(super) seqno: u64,
    /// Whether it holds a value that our build of fjall cannot read.
    pub(super) compressed: bool,
    items: Range<u64>,
}

/// Why reading a batch ended early.
pub(super) enum Stop {
    Io(io::Error),
    Broken(&'static str),
}

// === impl Batch ===

impl Batch {
    /// Reads the batch at `at` and proves it intact.
    ///
    /// The cheap tests (shape, then `floor`, the seqno it must exceed) come before the hash, as most
    /// candidates of a search fail them.
    pub(super) fn read(window: &mut Window<'_>, at: u64, floor: Option<u64>) -> Result<Self, Stop> {
        let (count, mut batch) = read_start(window, at)?;
        for _ in 0..count {
            batch.items.end += item_len(window, batch.items.end, &mut batch.compressed)?;
        }
        let end: [u8; END_LEN] = array(window, batch.items.end)?;
        if !is_end(&end) {
            return Err(Stop::Broken("no end marker behind the announced number of items"));
        }
        if !batch.rises_above(floor) {
            return Err(Stop::Broken("an old sequence number"));
        }
        if window.hash(batch.items.clone())? != little_endian(&end[1..9]) {
            return Err(Stop::Broken("a wrong checksum"));
        }
        Ok(batch)
    }

    pub(super) fn rises_above(&self, floor: Option<u64>) -> bool {
        floor.is_none_or(|floor| self.seqno > floor)
    }

    /// Where the next batch starts.
    pub(super) fn end(&self) -> u64 {
        self.items.end + END_LEN as u64
    }
}

fn read_start(window: &mut Window<'_>, at: u64) -> Result<(u64, Batch), Stop> {
    let start: [u8; START_LEN] = array(window, at)?;
    if start[0] != START {
        return Err(Stop::Broken("no start marker where a batch should begin"));
    }
    let count = little_endian(&start[1..5]);
    let first = at + START_LEN as u64;
    if count == 0 || count > window.left(first) / ITEM_HEAD_LEN as u64 {
        return Err(Stop::Broken("an impossible number of items"));
    }
    let seqno = little_endian(&start[5..]);
    Ok((count, Batch { seqno, compressed: false, items: first..first }))
}

/// The length of the item at `at`, never beyond the file: nothing is allocated by it.
fn item_len(window: &mut Window<'_>, at: u64, compressed: &mut bool) -> Result<u64, Stop> {
    window.count_step();
    if window.array(at)? != Some([ITEM]) {
        return Err(Stop::Broken("no item where one was announced"));
    }
    let head: [u8; ITEM_HEAD_LEN] = array(window, at)?;
    let (value_len, stored_len) = (little_endian(&head[13..17]), little_endian(&head[17..21]));
    if head[1] > TYPE_MAX || head[2] > LZ4 || (head[2] != LZ4 && value_len != stored_len) {
        return Err(Stop::Broken("an impossible item"));
    }
    let len = ITEM_HEAD_LEN as u64 + little_endian(&head[11..13]) + stored_len;
    if len > window.left(at) {
        return Err(Stop::Broken("an item that reaches beyond the end of the file"));
    }
    *compressed |= head[2] == LZ4;
    Ok(len)
}

pub(super) fn is_end(bytes: &[u8]) -> bool {
    bytes[0] == END && bytes[9..] == TRAILER
}

fn array<const N: usize>(window: &mut Window<'_>, at: u64) -> Result<[u8; N], Stop> {
    window.array(at)?.ok_or(Stop::Broken("an end of the file inside a batch"))
}

// === impl Stop ===

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
