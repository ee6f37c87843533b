//! Any bytes as a record of the embedded store.
#![no_main]

// The codec is private, and its store drags an engine in that nothing here needs.
#[path = "../../crates/semel-embedded/src"]
mod embedded {
    pub(crate) mod codec;
}

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use semel_core::{Record, RecordId, ResultId};

use embedded::codec;

/// That of the golden files.
const ID: RecordId = RecordId::from_bytes([7; 32]);

fuzz_target!(|data: &[u8]| {
    check(data);
    // No mutation guesses a checksum, so it is made right.
    let checksum = [ID.as_bytes(), data].concat();
    check(&[data, &crc32fast::hash(&checksum).to_le_bytes()].concat());
});

fn check(bytes: &[u8]) {
    let times = codec::times(bytes);
    let Ok(record) = decode(bytes) else { return };
    let mut encoded = b"left over from the record before".to_vec();
    codec::encode(ID, &record, &mut encoded);
    match bytes[0] {
        codec::RECORD_VERSION => assert_eq!(times, Some((record.created, record.expires))),
        _ => assert_eq!(times, None),
    }
    assert_eq!(decode(&encoded).as_ref(), Ok(&record));
    if is_as_written(bytes) {
        assert_eq!(encoded, bytes);
    }
    assert!(codec::decode(RecordId::from_bytes([8; 32]), &encoded.into()).is_err());
}

fn decode(bytes: &[u8]) -> Result<Record, codec::DecodeError> {
    codec::decode(ID, &Bytes::copy_from_slice(bytes))
}

/// Could these bytes of a record have been written by this version? It drops result ids that are too
/// long, or have a NUL in them.
fn is_as_written(bytes: &[u8]) -> bool {
    let result = match bytes {
        [_, 3 | 4, ..] => {
            let length = usize::from(u16::from_le_bytes([bytes[74], bytes[75]]));
            &bytes[76..76 + length]
        }
        _ => &[],
    };
    let is_kept = result.len() <= ResultId::MAX_LEN && !result.contains(&0);
    bytes[0] == codec::RECORD_VERSION && is_kept
}
