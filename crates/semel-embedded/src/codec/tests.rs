use proptest::prelude::*;

use super::*;

fn id() -> RecordId {
    RecordId::from_bytes([7; 32])
}

fn record(state: State) -> Record {
    Record {
        fingerprint: Fingerprint::from_bytes([9; 32]),
        created: Timestamp::from_millis(1_700_000_000_000),
        expires: Timestamp::from_millis(1_700_086_400_000),
        fence: Fence::FIRST.next(),
        owner: Owner::from_u128(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff),
        state,
    }
}

/// One record of each state, by the name of its golden file.
fn samples() -> Vec<(&'static str, Record)> {
    let reply = Reply::new(b"HTTP 201\0\xff{\"id\":\"ch_1\"}".as_slice());
    let named = reply.clone().with_result(ResultId::new("ch_1").unwrap());
    vec![
        ("leased", record(State::Leased { until: Timestamp::from_millis(1_700_000_030_000) })),
        ("held", record(State::Held)),
        ("released", record(State::Released)),
        ("completed", record(State::Settled(Settlement::Completed(named)))),
        ("failed", record(State::Settled(Settlement::Failed(reply)))),
        ("abandoned", record(State::Settled(Settlement::Abandoned))),
    ]
}

fn encoded(id: RecordId, record: &Record) -> Vec<u8> {
    let mut bytes = b"left over from the record before".to_vec();
    encode(id, record, &mut bytes);
    bytes
}

fn bytes_of(record: &Record) -> Bytes {
    Bytes::from(encoded(id(), record))
}

fn golden(version: u8, name: &str) -> Bytes {
    let path = format!("{}/tests/golden/v{version}-{name}.hex", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let digits: String = text.split_whitespace().collect();
    (0..digits.len() / 2)
        .map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap())
        .collect()
}

/// A change of the format that forgets to raise the version fails here.
#[test]
fn the_current_format_is_the_newest_golden_file() {
    for (name, record) in samples() {
        assert_eq!(bytes_of(&record), golden(RECORD_VERSION, name), "{name}");
    }
}

/// Records outlive the version that wrote them: every golden file stays readable for ever.
#[test]
fn every_version_ever_written_is_still_read() {
    for version in 1..=RECORD_VERSION {
        for (name, record) in samples() {
            assert_eq!(decode(id(), &golden(version, name)), Ok(record), "v{version} {name}");
        }
    }
}

#[test]
fn a_newer_version_is_named_and_not_guessed_at() {
    let mut bytes = encoded(id(), &record(State::Held));
    bytes[0] = RECORD_VERSION + 1;
    // So the sweeper leaves it: the position of the expiry in a later version is not known here.
    assert_eq!(times(&bytes), None);
    let error = decode(id(), &Bytes::from(bytes)).unwrap_err();
    assert_eq!(error, DecodeError::Newer { found: RECORD_VERSION + 1 });
    assert!(error.to_string().contains("use the newer version"), "{error}");
}

#[test]
fn every_flipped_bit_and_every_cut_is_noticed() {
    for (name, record) in samples() {
        let good = bytes_of(&record);
        for bit in 0..good.len() * 8 {
            let mut bad = good.to_vec();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(id(), &Bytes::from(bad)).is_err(), "{name}: bit {bit}");
        }
        for len in 0..good.len() {
            assert!(decode(id(), &good.slice(..len)).is_err(), "{name}: cut at {len}");
        }
    }
}

#[test]
fn a_value_under_another_id_is_refused() {
    let bytes = bytes_of(&record(State::Held));
    let other = RecordId::from_bytes([8; 32]);
    assert_eq!(decode(other, &bytes), Err(DecodeError::Checksum { len: bytes.len() }));
}

/// Such bytes carry a right checksum, so only a bug of ours or a forger can make them.
#[test]
fn nonsense_with_a_right_checksum_is_refused() {
    let forge = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut body = encoded(id(), &record(State::Held));
        body.truncate(body.len() - CHECKSUM_LEN);
        change(&mut body);
        let sum = checksum(id(), &body);
        body.extend(sum.to_le_bytes());
        decode(id(), &Bytes::from(body)).unwrap_err()
    };
    let what = |what| DecodeError::Nonsense { what };
    assert_eq!(forge(&|b| b[1] = 99), what("an unknown state"));
    assert_eq!(forge(&|b| b[18..26].fill(0)), what("a fence of zero"));
    assert_eq!(forge(&|b| b.push(0)), what("bytes left over at its end"));
    assert_eq!(forge(&|b| b.truncate(40)), what("too few bytes"));
}

#[test]
fn the_expiry_can_be_read_alone() {
    for (name, record) in samples() {
        let kept = Some((record.created, record.expires));
        assert_eq!(times(&bytes_of(&record)), kept, "{name}");
    }
    assert_eq!(times(b""), None);
    assert_eq!(times(&[RECORD_VERSION + 1; 50]), None);
}

fn any_state() -> impl Strategy<Value = State> {
    let reply =
        (proptest::collection::vec(any::<u8>(), 0..300), proptest::option::of("[ -~]{1,40}"))
            .prop_map(|(bytes, result)| match result.and_then(ResultId::new) {
                Some(result) => Reply::new(bytes).with_result(result),
                None => Reply::new(bytes),
            });
    prop_oneof![
        any::<u64>().prop_map(|until| State::Leased { until: Timestamp::from_millis(until) }),
        Just(State::Held),
        Just(State::Released),
        reply.clone().prop_map(|reply| State::Settled(Settlement::Completed(reply))),
        reply.prop_map(|reply| State::Settled(Settlement::Failed(reply))),
        Just(State::Settled(Settlement::Abandoned)),
    ]
}

proptest! {
    #[test]
    fn every_record_comes_back_as_it_was(
        state in any_state(), created: u64, expires: u64, fence in 1..=u64::MAX, owner: u128,
        fingerprint: [u8; 32], id: [u8; 32],
    ) {
        let id = RecordId::from_bytes(id);
        let record = Record {
            fingerprint: Fingerprint::from_bytes(fingerprint),
            created: Timestamp::from_millis(created),
            expires: Timestamp::from_millis(expires),
            fence: Fence::new(fence).unwrap(),
            owner: Owner::from_u128(owner),
            state,
        };
        let bytes = encoded(id, &record);
        prop_assert_eq!(bytes.len(), encoded_len(&record));
        prop_assert_eq!(decode(id, &Bytes::from(bytes)), Ok(record));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(id(), &Bytes::from(bytes));
    }
}
