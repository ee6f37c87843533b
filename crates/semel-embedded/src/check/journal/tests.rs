//! The input of these tests is written by the real fjall, except where it never would write it.

use std::io::Write as _;

use super::super::batch::{END, END_LEN, ITEM, ITEM_HEAD_LEN, START, START_LEN, TRAILER};
use super::super::little_endian;
use super::super::tests::{Sample, fjall_finds};
use super::*;

const MASKS: [u8; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 255];
const SEQNO: u64 = 1_000;

/// A look at `bytes` as if they were the only journal.
fn look(bytes: &[u8]) -> Verdict {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    walk(&file, &mut None).unwrap()
}

fn assert_damaged(bytes: &[u8], at: usize, context: &str) {
    match look(bytes) {
        Verdict::Damaged { at: found, .. } if found == at as u64 => {}
        other => panic!("{context}: wanted damage at {at}, got {other:?}"),
    }
}

fn assert_torn(bytes: &[u8], whole: u64, at: usize, context: &str) {
    match look(bytes) {
        Verdict::Torn { batches, end, .. } if (batches, end) == (whole, at as u64) => {}
        other => panic!("{context}: wanted a torn tail at {at}, got {other:?}"),
    }
}

fn flipped(bytes: &[u8], at: usize, mask: u8) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] ^= mask;
    bytes
}

fn noise(len: usize, mut state: u64) -> Vec<u8> {
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        state.to_be_bytes()[0]
    };
    (0..len).map(next).collect()
}

/// A batch as fjall would write it, with one item.
fn handmade(seqno: u64, compression: u8, value: &[u8]) -> Vec<u8> {
    let len = u32::try_from(value.len()).unwrap().to_le_bytes();
    let head = [ITEM, 0, compression, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0];
    let item = [&head[..], &len, &len, b"k", value].concat();
    let start = [&[START, 1, 0, 0, 0][..], &seqno.to_le_bytes()].concat();
    let hash = xxhash_rust::xxh3::xxh3_64(&item).to_le_bytes();
    [&start, &item, &[END][..], &hash, &TRAILER].concat()
}

#[test]
fn a_cut_in_the_last_batches_is_torn() {
    let sample = Sample::new(9);
    for cut in sample.ends[6]..=sample.bytes.len() {
        let whole = sample.ends.iter().filter(|end| **end <= cut).count() - 1;
        let (batches, at) = (whole as u64, sample.ends[whole]);
        for zeros in [0, 3000] {
            let bytes = [&sample.bytes[..cut], &vec![0; zeros]].concat();
            if cut == at {
                assert_eq!(look(&bytes), Verdict::Clean { batches, end: at as u64 });
            } else {
                assert_torn(&bytes, batches, at, &format!("cut at {cut}, {zeros} zeros"));
            }
        }
    }
}

#[test]
fn every_flipped_bit_in_the_middle_is_damage() {
    let sample = Sample::new(9);
    for n in [0, 3, 4, 7] {
        let batch = sample.batch(n);
        let seqno = batch.start + 5..batch.start + 13;
        for (at, mask) in batch.clone().flat_map(|at| MASKS.map(|mask| (at, mask))) {
            let bytes = flipped(&sample.bytes, at, mask);
            let context = format!("batch {n}, byte {}, mask {mask}", at - batch.start);
            if !seqno.contains(&at) {
                assert_damaged(&bytes, batch.start, &context);
                continue;
            }
            // Fjall does not hash the seqno: only its order can tell.
            let risen =
                little_endian(&bytes[seqno.clone()]) > little_endian(&sample.bytes[seqno.clone()]);
            match (risen, n) {
                (true, _) => assert_damaged(&bytes, batch.end, &context),
                (false, 0) => assert!(matches!(look(&bytes), Verdict::Clean { .. }), "{context}"),
                (false, _) => assert_damaged(&bytes, batch.start, &context),
            }
        }
    }
}

#[test]
fn a_broken_last_batch_is_torn() {
    let sample = Sample::new(8);
    let batch = sample.batch(7);
    let seqno = batch.start + 5..batch.start + 13;
    for (at, mask) in batch.clone().flat_map(|at| MASKS.map(|mask| (at, mask))) {
        let bytes = flipped(&sample.bytes, at, mask);
        let context = format!("byte {}, mask {mask}", at - batch.start);
        if !seqno.contains(&at) {
            assert_torn(&bytes, 7, batch.start, &context);
            continue;
        }
        let risen =
            little_endian(&bytes[seqno.clone()]) > little_endian(&sample.bytes[seqno.clone()]);
        if risen {
            assert!(matches!(look(&bytes), Verdict::Clean { batches: 8, .. }), "{context}");
        } else {
            assert_damaged(&bytes, batch.start, &context);
        }
    }
}

#[test]
fn a_zeroed_sector_in_the_middle_is_damage() {
    let sample = Sample::new(60);
    for sector in (0..sample.ends[59] - 512).step_by(512) {
        let mut bytes = sample.bytes.clone();
        bytes[sector..sector + 512].fill(0);
        let hit = sample.ends.iter().rfind(|end| **end <= sector).unwrap();
        assert_damaged(&bytes, *hit, "zeroed sector");
        bytes.extend(vec![0; 100_000]);
        assert_damaged(&bytes, *hit, "zeroed sector, zeros behind");
    }
}

/// Why this module exists.
#[test]
fn fjall_alone_loses_what_follows_the_damage() {
    let sample = Sample::new(9);
    let broken = sample.batch(3);
    let mut zeroed = sample.bytes.clone();
    zeroed[broken.start..][..20].fill(0);
    // Both lengths of the first value.
    let long = flipped(&sample.bytes, broken.start + START_LEN + 19, 0x10);
    let long = flipped(&long, broken.start + START_LEN + 15, 0x10);
    for bytes in [flipped(&sample.bytes, broken.start, 0x40), zeroed, long] {
        let dir = sample.with(&bytes);
        let error = check(dir.path()).unwrap_err();
        assert!(
            matches!(&error, OpenError::Damaged { file, at, .. }
                if *file == dir.path().join("0.jnl") && *at == Some(broken.start as u64)),
            "{error}"
        );
        let text = error.to_string();
        assert!(text.contains(&format!("intact batch starts at byte {}", broken.end)), "{text}");
        let cure = format!("truncate -s {} '{}'", broken.start, dir.path().join("0.jnl").display());
        assert!(text.contains(&cure), "{text}");
        assert_eq!(fs::read(dir.path().join("0.jnl")).unwrap(), bytes, "the check must not write");

        let found = fjall_finds(dir.path()).expect("fjall opens it");
        assert!(found.into_iter().eq(0..3), "six acknowledged batches are gone");
    }
}

#[test]
fn the_drastic_cure_works() {
    let sample = Sample::new(9);
    let at = sample.batch(3).start;
    let dir = sample.with(&flipped(&sample.bytes, at + 30, 1));
    assert!(check(dir.path()).is_err());
    File::options().write(true).open(dir.path().join("0.jnl")).unwrap().set_len(at as u64).unwrap();
    assert_eq!(check(dir.path()).unwrap(), None);
    assert!(fjall_finds(dir.path()).unwrap().into_iter().eq(0..3));
}

/// A database that ran out of space in the middle of a batch may still seal that journal and begin
/// the next, but it writes no batch there.
#[test]
fn a_torn_journal_may_be_followed_by_an_empty_one() {
    let sample = Sample::new(3);
    let torn = &sample.bytes[..sample.ends[3] - 1];
    let dir = sample.with(torn);
    let next = dir.path().join("1.jnl");
    for empty in [vec![], vec![0; 100_000]] {
        fs::write(&next, empty).unwrap();
        let tail = check(dir.path()).unwrap().unwrap();
        assert_eq!((tail.path, tail.end), (dir.path().join("0.jnl"), sample.ends[2] as u64));
    }
    // Anything but zeros in there is something that followed.
    fs::write(&next, [1, 2, 3]).unwrap();
    assert!(check(dir.path()).is_err());
}

#[test]
fn a_sealed_journal_may_not_be_torn() {
    let sample = Sample::new(8);
    let (old, new) = sample.bytes.split_at(sample.ends[5]);
    let dir = sample.with(old);
    let (older, newer) = (dir.path().join("9.jnl"), dir.path().join("10.jnl"));
    // Numbers are compared as such: 10 is newer than 9.
    fs::rename(dir.path().join("0.jnl"), &older).unwrap();
    fs::write(&newer, new).unwrap();
    assert_eq!(check(dir.path()).unwrap(), None);

    fs::write(&newer, &new[..new.len() - 1]).unwrap();
    let tail = check(dir.path()).unwrap().unwrap();
    assert_eq!((tail.path, tail.end), (newer.clone(), (sample.ends[7] - old.len()) as u64));

    fs::write(&older, &old[..old.len() - 1]).unwrap();
    let error = check(dir.path()).unwrap_err();
    assert!(
        matches!(&error, OpenError::Damaged { file, at, .. }
            if *file == older && *at == Some(sample.ends[4] as u64)),
        "{error}"
    );

    // Seqnos must rise from one to the next, too.
    fs::write(&older, new).unwrap();
    let error = check(dir.path()).unwrap_err();
    assert!(
        matches!(&error, OpenError::Damaged { file, at: Some(0), .. } if *file == newer),
        "{error}"
    );

    // Fjall would have cut it and gone on.
    fs::write(&older, &old[..old.len() - 1]).unwrap();
    fs::write(&newer, new).unwrap();
    assert!(fjall_finds(dir.path()).unwrap().into_iter().eq([0, 1, 2, 3, 5, 6, 7]));
}

#[test]
fn names_and_numbers_of_journals() {
    let dir = tempfile::tempdir().unwrap();
    let refused = |name: &str| {
        let error = check(dir.path()).unwrap_err().to_string();
        assert!(error.contains(dir.path().join(name).to_str().unwrap()), "{error}");
    };
    let refused_without_any = || {
        let error = check(dir.path()).unwrap_err();
        assert!(matches!(&error, OpenError::Damaged { file, .. } if file == dir.path()), "{error}");
    };
    refused_without_any();
    for name in ["1.jnl.bak", "1", "jnl"] {
        fs::write(dir.path().join(name), "no journal").unwrap();
    }
    refused_without_any();
    for name in ["4.jnl", "5.jnl"] {
        fs::write(dir.path().join(name), [0; 100]).unwrap();
    }
    assert_eq!(check(dir.path()).unwrap(), None);
    fs::write(dir.path().join("8.jnl"), "").unwrap();
    refused("6.jnl");
    fs::remove_file(dir.path().join("8.jnl")).unwrap();
    for name in ["x.jnl", "-1.jnl", "+6.jnl", "06.jnl", "6.JNL"] {
        fs::write(dir.path().join(name), "").unwrap();
        refused(name);
        fs::remove_file(dir.path().join(name)).unwrap();
    }
    let missing = dir.path().join("nothing");
    assert!(matches!(check(&missing), Err(OpenError::Io { path, .. }) if path == missing));
}

#[test]
fn bytes_of_a_batch_inside_a_torn_value() {
    let sample = Sample::new(5);
    let seqno = little_endian(&sample.bytes[sample.batch(4).start + 5..][..8]);
    let torn = |inner: &[u8]| {
        let outer = handmade(seqno + 1, 0, &[inner, b" and more"].concat());
        [&sample.bytes, &outer[..outer.len() - 1]].concat()
    };
    // A copy of an own, older batch is recognized by its seqno.
    let own = torn(&sample.bytes[sample.batch(1)]);
    assert_torn(&own, 5, sample.bytes.len(), "own copy");
    // A forgery is not; refusing is the safe side.
    assert_damaged(&torn(&handmade(seqno + 2, 0, b"x")), sample.bytes.len(), "forged");
    // Inside a whole batch neither matters.
    let whole = [&own[..], &TRAILER[3..]].concat();
    assert!(matches!(look(&whole), Verdict::Clean { batches: 6, .. }));
}

/// Fjall, built without compression, takes a compressed value for the end of the log.
#[test]
fn a_compressed_value_is_damage_even_at_the_end() {
    let compressed = handmade(SEQNO + 1, 1, b"compressed");
    let before = handmade(SEQNO, 0, b"plain");
    let because = Evidence::Intact;
    for behind in [Vec::new(), handmade(SEQNO + 2, 0, b"plain")] {
        let bytes = [&before[..], &compressed, &behind].concat();
        assert!(matches!(look(&bytes), Verdict::Damaged { at, because: b, .. }
                if at == before.len() as u64 && b == because));
    }
    // And it counts as an intact batch behind a broken one.
    let bytes = [&flipped(&before, 3, 1)[..], &compressed].concat();
    assert_damaged(&bytes, 0, "compressed behind");
}

#[test]
fn odd_files() {
    assert_eq!(look(&[]), Verdict::Clean { batches: 0, end: 0 });
    assert_eq!(look(&vec![0; 100_000]), Verdict::Clean { batches: 0, end: 0 });
    for byte in 1..=255 {
        assert_torn(&[byte; 1000], 0, 0, "one byte all over");
    }
    // Lengths and counts of which the file has no room are not believed, however the file goes on.
    let good = handmade(SEQNO, 0, &noise(50, 3));
    let (key_len, value_len, stored_len) = (START_LEN + 11, START_LEN + 13, START_LEN + 17);
    for (field, size) in [(1, 4), (key_len, 2), (value_len, 4), (stored_len, 4)] {
        let mut bad = good.clone();
        bad[field..field + size].fill(255);
        assert_torn(&bad, 0, 0, "length");
        bad.extend(handmade(SEQNO + 1, 0, b"next"));
        assert_damaged(&bad, 0, "length");
    }
    // A zero-filled hole in front is damage, too.
    assert_damaged(&[vec![0; 40_000], good].concat(), 0, "hole");
}

#[test]
fn the_next_intact_batch_is_found_at_any_distance() {
    let good = handmade(SEQNO, 0, &noise(50, 3));
    // Also across the edges of the window.
    for distance in (1..50).chain(WINDOW - 60..WINDOW + 20) {
        let because = Evidence::Followed(distance as u64);
        let verdict = look(&[noise(distance, 9), good.clone()].concat());
        assert!(matches!(verdict, Verdict::Damaged { at: 0, because: b, .. } if b == because));
    }
}

/// Long batches start everywhere, and none has an end.
#[test]
fn a_search_that_is_made_to_be_slow_is_given_up() {
    const LEN: usize = 4 << 20;
    let item_len = ITEM_HEAD_LEN + 1 + 29;
    let mut period = handmade(SEQNO, 0, &[b'e'; 29])[..START_LEN + item_len].to_vec();
    period[1..5].copy_from_slice(&60_000u32.to_le_bytes());
    for length in [START_LEN + 13, START_LEN + 17] {
        // So that an item reaches to the one of the next period.
        period[length] += u8::try_from(START_LEN).unwrap();
    }
    let end = &handmade(SEQNO, 0, b"")[START_LEN + ITEM_HEAD_LEN + 1..];
    assert_eq!(end.len(), END_LEN);
    let bytes = [&noise(10, 1), &period.repeat(LEN / period.len())[..], end].concat();
    let verdict = look(&bytes);
    let because = Evidence::SearchGivenUp;
    assert!(
        matches!(verdict, Verdict::Damaged { at: 0, because: b, .. } if b == because),
        "{verdict:?}"
    );
}
