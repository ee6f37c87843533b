//! Encoding of records, as the scripts write them (`lua/layout.lua`).

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use semel_core::{
    Fence, Fingerprint, Owner, Record, Reply, ResultId, Settlement, State, Timestamp,
};

const VERSION: u8 = 1;
const HEAD_LEN: usize = 82;

pub(crate) const LEASED: u8 = 0;
pub(crate) const HELD: u8 = 1;
pub(crate) const RELEASED: u8 = 2;
pub(crate) const COMPLETED: u8 = 3;
pub(crate) const FAILED: u8 = 4;
pub(crate) const ABANDONED: u8 = 5;

/// Why bytes are not a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Damage {
    /// Written by a later version of Semel.
    #[error(
        "it has format version {found}, and this version of Semel reads up to {VERSION}: use the newer version"
    )]
    Version { found: u8 },
    /// It is truncated.
    #[error("it is cut off after {len} bytes")]
    Short { len: usize },
    /// A field has an invalid value.
    #[error("it has {what}")]
    Nonsense { what: &'static str },
}

/// The record in `bytes`. Its reply shares their memory.
pub(crate) fn decode(mut bytes: Bytes) -> Result<Record, Damage> {
    let len = bytes.len();
    match bytes.first() {
        Some(&VERSION) => {}
        Some(&found) => return Err(Damage::Version { found }),
        None => return Err(Damage::Short { len }),
    }
    if len < HEAD_LEN {
        return Err(Damage::Short { len });
    }
    bytes.advance(1);
    let state = bytes.get_u8();
    let fence = Fence::new(bytes.get_u64_le());
    let fence = fence.ok_or(Damage::Nonsense { what: "a fence of zero" })?;
    let mut moment = || Timestamp::from_millis(bytes.get_u64_le());
    let (created, expires, until) = (moment(), moment(), moment());
    let mut owner = [0; 16];
    bytes.copy_to_slice(&mut owner);
    let owner = Owner::from_u128(u128::from_be_bytes(owner));
    let mut fingerprint = [0; 32];
    bytes.copy_to_slice(&mut fingerprint);
    let fingerprint = Fingerprint::from_bytes(fingerprint);
    let state = match state {
        LEASED => State::Leased { until },
        HELD => State::Held,
        RELEASED => State::Released,
        COMPLETED => State::Settled(Settlement::Completed(reply(bytes, len)?)),
        FAILED => State::Settled(Settlement::Failed(reply(bytes, len)?)),
        ABANDONED => State::Settled(Settlement::Abandoned),
        _ => return Err(Damage::Nonsense { what: "an unknown state" }),
    };
    Ok(Record { fingerprint, created, expires, fence, owner, state })
}

/// The outcome and the expiry of a settled record.
pub(crate) fn settled(bytes: Bytes) -> Result<(Settlement, Timestamp), Damage> {
    let record = decode(bytes)?;
    match record.state {
        State::Settled(settlement) => Ok((settlement, record.expires)),
        _ => Err(Damage::Nonsense { what: "no outcome, though it is settled" }),
    }
}

fn reply(mut bytes: Bytes, len: usize) -> Result<Reply, Damage> {
    let short = Damage::Short { len };
    let result_len = bytes.try_get_u16_le().map_err(|_| short.clone())?;
    if bytes.len() < usize::from(result_len) {
        return Err(short);
    }
    let result = bytes.split_to(usize::from(result_len));
    let reply = Reply::new(bytes);
    if result.is_empty() {
        return Ok(reply);
    }
    let result = str::from_utf8(&result).ok().and_then(ResultId::new);
    let result = result.ok_or(Damage::Nonsense { what: "an id of what was made that is none" })?;
    Ok(reply.with_result(result))
}

/// The state byte of a settlement, and the bytes after the head.
pub(crate) fn encode(settlement: &Settlement) -> (u8, Bytes) {
    let (state, reply) = match settlement {
        Settlement::Completed(reply) => (COMPLETED, reply),
        Settlement::Failed(reply) => (FAILED, reply),
        Settlement::Abandoned => return (ABANDONED, Bytes::new()),
    };
    let result = reply.result().map_or("", ResultId::as_str);
    let mut bytes = BytesMut::with_capacity(2 + result.len() + reply.bytes().len());
    // At most ResultId::MAX_LEN, far below 65,536.
    bytes.put_u16_le(u16::try_from(result.len()).unwrap_or(u16::MAX));
    bytes.put_slice(result.as_bytes());
    bytes.put_slice(reply.bytes());
    (state, bytes.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value as the scripts write it.
    fn value(state: u8, settled: &[u8]) -> Vec<u8> {
        let mut value = vec![VERSION, state];
        for number in [7_u64, 1_000, 2_000, 1_500] {
            value.put_u64_le(number);
        }
        value.put_slice(&0xab_u128.to_be_bytes());
        value.put_slice(&[9; 32]);
        value.put_slice(settled);
        value
    }

    fn read(value: Vec<u8>) -> Result<Record, Damage> {
        decode(Bytes::from(value))
    }

    #[test]
    fn the_head_has_the_length_that_the_scripts_count_on() {
        assert_eq!(value(LEASED, &[]).len(), HEAD_LEN);
        assert!(include_str!("../lua/layout.lua").contains(&format!("HEAD_LEN = {HEAD_LEN}\n")));
    }

    #[test]
    fn every_field_is_read() {
        let record = read(value(LEASED, &[])).unwrap();
        assert_eq!(record.fence, Fence::new(7).unwrap());
        assert_eq!(record.created, Timestamp::from_millis(1_000));
        assert_eq!(record.expires, Timestamp::from_millis(2_000));
        assert_eq!(record.state, State::Leased { until: Timestamp::from_millis(1_500) });
        assert_eq!(record.owner, Owner::from_u128(0xab));
        assert_eq!(record.fingerprint, Fingerprint::from_bytes([9; 32]));
    }

    #[test]
    fn outcomes_come_back_as_they_were() {
        let reply = Reply::new(vec![0, 255, 13, 10]);
        let named = reply.clone().with_result(ResultId::new("ch_1").unwrap());
        for settlement in [
            Settlement::Completed(reply),
            Settlement::Completed(Reply::default()),
            Settlement::Failed(named),
            Settlement::Abandoned,
        ] {
            let (state, bytes) = encode(&settlement);
            let read = settled(Bytes::from(value(state, &bytes))).unwrap();
            assert_eq!(read, (settlement, Timestamp::from_millis(2_000)));
        }
    }

    #[test]
    fn damage_is_named() {
        let whole = value(COMPLETED, &encode(&Settlement::Completed(Reply::new("x"))).1);
        for len in 0..HEAD_LEN + 2 {
            assert_eq!(read(whole[..len].to_vec()), Err(Damage::Short { len }));
        }
        let change = |at: usize, to: u8| {
            let mut bytes = whole.clone();
            bytes[at] = to;
            read(bytes).unwrap_err()
        };
        assert_eq!(change(0, 2), Damage::Version { found: 2 });
        assert_eq!(change(1, 6), Damage::Nonsense { what: "an unknown state" });
        assert_eq!(change(2, 0), Damage::Nonsense { what: "a fence of zero" });
        assert_eq!(change(HEAD_LEN, 200), Damage::Short { len: whole.len() });
        let leased = settled(Bytes::from(value(HELD, &[])));
        assert!(matches!(leased, Err(Damage::Nonsense { .. })), "{leased:?}");
    }
}
