//! Records as bytes, with a version and a checksum.
//!
//! Layout of version 1, little-endian:
//!
//! | bytes | what |
//! |---|---|
//! | 1 | format version |
//! | 1 | state |
//! | 8 | expires |
//! | 8 | created |
//! | 8 | fence |
//! | 16 | owner |
//! | 32 | fingerprint |
//! | 8 | leased: until |
//! | 2 + n, m | completed, failed: result id with its length, then the reply |
//! | 4 | CRC-32 over the record's id and all bytes before |
//!
//! The checksum covers the id, so a value that turns up under another record's id is noticed. Golden
//! files in `tests/golden` hold one record of each state in every version ever written: they must
//! stay readable.

use bytes::Bytes;
use semel_core::{
    Fence, Fingerprint, Owner, Record, RecordId, Reply, ResultId, Settlement, State, Timestamp,
};

/// The newest version this code reads, and the one it writes.
pub(crate) const RECORD_VERSION: u8 = 1;

const LEASED: u8 = 0;
const HELD: u8 = 1;
const RELEASED: u8 = 2;
const COMPLETED: u8 = 3;
const FAILED: u8 = 4;
const ABANDONED: u8 = 5;

const HEADER_LEN: usize = 1 + 1 + 8 + 8 + 8 + 16 + 32;
const CHECKSUM_LEN: usize = 4;

/// Why bytes are not a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecodeError {
    /// Written by a later version of Semel.
    #[error(
        "it has format version {found}, and this version of Semel reads up to {RECORD_VERSION}: use the newer version"
    )]
    Newer { found: u8 },
    /// The bytes are not those that were written.
    #[error("its checksum does not match its {len} bytes")]
    Checksum { len: usize },
    /// The checksum is right and the content still makes no sense.
    #[error("it has {what}")]
    Nonsense { what: &'static str },
}

/// Replaces `bytes` with those of a record, to be kept under `id`.
pub(crate) fn encode(id: RecordId, record: &Record, bytes: &mut Vec<u8>) {
    bytes.clear();
    bytes.reserve(encoded_len(record));
    bytes.push(RECORD_VERSION);
    bytes.push(tag(&record.state));
    bytes.extend_from_slice(&record.expires.as_millis().to_le_bytes());
    bytes.extend_from_slice(&record.created.as_millis().to_le_bytes());
    bytes.extend_from_slice(&record.fence.get().to_le_bytes());
    bytes.extend_from_slice(&record.owner.as_u128().to_le_bytes());
    bytes.extend_from_slice(record.fingerprint.as_bytes());
    match &record.state {
        State::Leased { until } => bytes.extend_from_slice(&until.as_millis().to_le_bytes()),
        State::Settled(settlement) => {
            if let Some(reply) = settlement.reply() {
                encode_reply(bytes, reply);
            }
        }
        State::Held | State::Released => {}
    }
    let checksum = checksum(id, bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
}

/// The record that was kept under `id`. The reply shares the memory of `bytes`.
pub(crate) fn decode(id: RecordId, bytes: &Bytes) -> Result<Record, DecodeError> {
    // The version comes first: a later one may have moved everything behind it.
    match bytes.first() {
        Some(&version) if version > RECORD_VERSION => {
            return Err(DecodeError::Newer { found: version });
        }
        Some(0) => return Err(DecodeError::Nonsense { what: "a version that never was" }),
        _ => {}
    }
    let body_len = bytes.len().saturating_sub(CHECKSUM_LEN);
    let (body, kept) = bytes.split_at(body_len);
    if kept != checksum(id, body).to_le_bytes() {
        return Err(DecodeError::Checksum { len: bytes.len() });
    }
    let mut reader = Reader { bytes: bytes.slice(..body_len) };
    let record = reader.record()?;
    match reader.bytes.len() {
        0 => Ok(record),
        _ => Err(DecodeError::Nonsense { what: "bytes left over at its end" }),
    }
}

/// When the record in `bytes` was created and when it expires, without reading the rest; `None` if it
/// is not one of ours.
pub(crate) fn times(bytes: &[u8]) -> Option<(Timestamp, Timestamp)> {
    let (&[RECORD_VERSION, _], rest) = bytes.split_first_chunk()? else {
        return None;
    };
    let (expires, rest) = rest.split_first_chunk()?;
    let created = rest.first_chunk()?;
    let timestamp = |millis| Timestamp::from_millis(u64::from_le_bytes(millis));
    Some((timestamp(*created), timestamp(*expires)))
}

fn checksum(id: RecordId, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(id.as_bytes());
    hasher.update(body);
    hasher.finalize()
}

fn tag(state: &State) -> u8 {
    match state {
        State::Leased { .. } => LEASED,
        State::Held => HELD,
        State::Released => RELEASED,
        State::Settled(Settlement::Completed(_)) => COMPLETED,
        State::Settled(Settlement::Failed(_)) => FAILED,
        State::Settled(Settlement::Abandoned) => ABANDONED,
    }
}

fn encoded_len(record: &Record) -> usize {
    let state_len = match &record.state {
        State::Leased { .. } => 8,
        State::Settled(settlement) => settlement.reply().map_or(0, |reply| {
            2 + reply.result().map_or(0, |result| result.as_str().len()) + reply.bytes().len()
        }),
        State::Held | State::Released => 0,
    };
    HEADER_LEN + state_len + CHECKSUM_LEN
}

fn encode_reply(bytes: &mut Vec<u8>, reply: &Reply) {
    let result = reply.result().map_or("", ResultId::as_str);
    // A ResultId is at most ResultId::MAX_LEN bytes, far below 65,536.
    let result_len = u16::try_from(result.len()).unwrap_or(u16::MAX);
    bytes.extend(result_len.to_le_bytes());
    bytes.extend(result.as_bytes());
    bytes.extend(reply.bytes());
}

/// Takes fields off the front of a record whose checksum was right.
struct Reader {
    bytes: Bytes,
}

// === impl Reader ===

impl Reader {
    fn record(&mut self) -> Result<Record, DecodeError> {
        let [_version, tag] = self.array()?;
        let expires = self.timestamp()?;
        let created = self.timestamp()?;
        let fence = Fence::new(u64::from_le_bytes(self.array()?))
            .ok_or(DecodeError::Nonsense { what: "a fence of zero" })?;
        let owner = Owner::from_u128(u128::from_le_bytes(self.array()?));
        let fingerprint = Fingerprint::from_bytes(self.array()?);
        let state = match tag {
            LEASED => State::Leased { until: self.timestamp()? },
            HELD => State::Held,
            RELEASED => State::Released,
            COMPLETED => State::Settled(Settlement::Completed(self.reply()?)),
            FAILED => State::Settled(Settlement::Failed(self.reply()?)),
            ABANDONED => State::Settled(Settlement::Abandoned),
            _ => {
                return Err(DecodeError::Nonsense { what: "an unknown state" });
            }
        };
        Ok(Record { fingerprint, created, expires, fence, owner, state })
    }

    fn reply(&mut self) -> Result<Reply, DecodeError> {
        let result_len = usize::from(u16::from_le_bytes(self.array()?));
        let result = self.take(result_len)?;
        let result = str::from_utf8(&result)
            .map_err(|_| DecodeError::Nonsense { what: "a result id that is not text" })?;
        let reply = Reply::new(self.bytes.split_off(0));
        Ok(match ResultId::new(result) {
            Some(result) => reply.with_result(result),
            None => reply,
        })
    }

    fn timestamp(&mut self) -> Result<Timestamp, DecodeError> {
        Ok(Timestamp::from_millis(u64::from_le_bytes(self.array()?)))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let taken = self.take(N)?;
        taken.first_chunk().copied().ok_or(TOO_SHORT)
    }

    fn take(&mut self, len: usize) -> Result<Bytes, DecodeError> {
        if self.bytes.len() < len {
            return Err(TOO_SHORT);
        }
        Ok(self.bytes.split_to(len))
    }
}

const TOO_SHORT: DecodeError = DecodeError::Nonsense { what: "too few bytes" };

#[cfg(test)]
mod tests;
