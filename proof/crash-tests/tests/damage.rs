//! Damaged files: a torn end is repaired, everything else is refused.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use semel_core::{Claim, Policy, Record, Reply, Settlement, State};
use semel_crash_tests::ledger::Name;
use semel_embedded::{EmbeddedStore, OpenError, Options};
use semel_store::{Settled, Store as _, StoreError};
use tempfile::TempDir;

fn open(path: &Path) -> Result<EmbeddedStore, OpenError> {
    Options::new(path).sweep_every(None).open()
}

async fn settle(store: &EmbeddedStore, number: u32) {
    let name = Name { run: 0, number };
    let claim = store.claim(&name.attempt(), &Policy::default()).await.expect("claim");
    let Claim::Execute(lease) = claim else { panic!("{name:?}: {claim:?}") };
    assert_eq!(store.settle(&lease, name.settlement()).await.expect("settle"), Settled::Recorded);
}

/// A store with `numbers` settled, closed.
async fn store_of(numbers: std::ops::Range<u32>) -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path()).expect("a new store");
    for number in numbers {
        settle(&store, number).await;
    }
    directory
}

fn files(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(path).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let bytes = fs::read(&path).expect("a file");
            found.insert(path, bytes);
        }
    }
    found
}

fn copy(from: &Path) -> TempDir {
    let to = tempfile::tempdir().expect("a directory");
    let status = std::process::Command::new("cp")
        .args(["-r", "--sparse=always"])
        .arg(from.join("."))
        .arg(to.path())
        .status();
    assert!(status.expect("cp").success());
    to
}

fn newest_log(store: &Path) -> PathBuf {
    let log = |path: &PathBuf| {
        let name = path.file_name()?.to_str()?;
        name.strip_suffix(".jnl")?.parse::<u64>().ok()
    };
    files(&store.join("engine")).into_keys().max_by_key(log).expect("a log")
}

/// What is settled among `numbers`; panics at a record that is neither absent nor right.
async fn settled(store: &EmbeddedStore, numbers: std::ops::Range<u32>) -> Vec<u32> {
    let mut found = Vec::new();
    for number in numbers {
        let name = Name { run: 0, number };
        match store.inspect(name.id()).await.expect("readable") {
            Some(Record { state: State::Settled(settlement), .. }) => {
                assert_eq!(settlement, name.settlement(), "{name:?}");
                found.push(number);
            }
            Some(Record { state: State::Leased { .. }, .. }) | None => {}
            Some(other) => panic!("{name:?}: {other:?}"),
        }
    }
    found
}

#[tokio::test]
async fn a_log_cut_at_every_byte_of_its_last_records_opens_with_all_before() {
    const RECORDS: u32 = 12;
    let original = store_of(0..RECORDS).await;
    let log = newest_log(original.path());
    let bytes = fs::read(&log).expect("the log");
    // The log is preallocated: its content ends at the last byte that is not zero.
    let end = bytes.iter().rposition(|byte| *byte != 0).expect("content") + 1;
    let name = log.strip_prefix(original.path()).expect("within").to_owned();
    let mut kept_before = 0;
    let last_records = end - 600;
    for cut in last_records..=end {
        let torn = copy(original.path());
        fs::OpenOptions::new()
            .write(true)
            .open(torn.path().join(&name))
            .and_then(|file| file.set_len(cut as u64))
            .expect("cut");
        let store = open(torn.path()).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        let kept = settled(&store, 0..RECORDS).await;
        // They were settled one after the other: what is left has no holes and never shrinks.
        assert!(kept.iter().copied().eq(0..u32::try_from(kept.len()).unwrap()), "{kept:?}");
        assert!(kept.len() >= kept_before, "cut at {cut}: {kept:?}");
        kept_before = kept.len();
        // And it goes on from there.
        settle(&store, 1_000).await;
    }
    assert_eq!(kept_before, RECORDS as usize, "the whole log keeps them all");
}

#[tokio::test]
async fn damage_in_the_middle_of_the_log_is_refused_by_file_and_place() {
    let store = store_of(0..20).await;
    let log = newest_log(store.path());
    let mut bytes = fs::read(&log).expect("the log");
    let end = bytes.iter().rposition(|byte| *byte != 0).expect("content");
    bytes[end / 2] ^= 0x55;
    fs::write(&log, &bytes).expect("damage");
    let before = files(store.path());
    let error = open(store.path()).expect_err("damage must be refused");
    let OpenError::Damaged { file, at: Some(at), .. } = &error else { panic!("{error}") };
    assert_eq!(*file, log);
    assert!(*at > 0 && *at <= (end / 2) as u64, "{error}");
    let text = error.to_string();
    assert!(text.contains("backup") && text.contains(&format!("{at}")), "{text}");
    assert!(before == files(store.path()), "a refused store was changed");
}

/// So many records with large replies fill a memtable, so that the engine writes a table.
const LARGE: u32 = 60;
const ALL: u32 = 200;

fn reply(number: u32) -> Settlement {
    if number < LARGE {
        Settlement::Completed(Reply::new(number.to_string().repeat(400_000)))
    } else {
        Name { run: 0, number }.settlement()
    }
}

/// A closed store with records in tables and in the log.
async fn store_with_tables() -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open(directory.path()).expect("a new store");
    for number in 0..ALL {
        let name = Name { run: 0, number };
        let claim = store.claim(&name.attempt(), &Policy::default()).await.expect("claim");
        let Claim::Execute(lease) = claim else { panic!("{name:?}: {claim:?}") };
        store.settle(&lease, reply(number)).await.expect("settle");
    }
    let tables = directory.path().join("engine/keyspaces/1/tables");
    let waited = std::iter::repeat_with(|| std::thread::sleep(Duration::from_millis(10)));
    let has_table = || fs::read_dir(&tables).is_ok_and(|mut tables| tables.next().is_some());
    assert!(waited.take(3_000).any(|()| has_table()), "no table in {}", tables.display());
    drop(store);
    directory
}

/// A copy in which only files that are never written again (large tables) are shared.
fn copy_to_damage(original: &BTreeMap<PathBuf, Vec<u8>>, from: &Path) -> TempDir {
    let to = tempfile::tempdir().expect("a directory");
    for (path, bytes) in original {
        let target = to.path().join(path.strip_prefix(from).expect("within"));
        fs::create_dir_all(target.parent().expect("a parent")).expect("a directory");
        if bytes.len() > 1 << 20 && !is_log(path) {
            fs::hard_link(path, &target).expect("a link");
        } else {
            fs::write(&target, content(path, bytes)).expect("a copy");
        }
    }
    fs::write(to.path().join("engine/lock"), "").expect("the engine's lock");
    to
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jnl")
}

/// Without the zeros of a preallocated log.
fn content<'a>(path: &Path, bytes: &'a [u8]) -> &'a [u8] {
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |end| end + 1);
    if is_log(path) { &bytes[..end] } else { bytes }
}

/// Every file of a store with tables and a log, damaged in many places: either opening or reading fails,
/// or nothing is wrong. Only the end of the log may be lost, as after a crash.
#[tokio::test]
async fn no_flipped_bit_anywhere_gives_a_wrong_or_silently_missing_record() {
    let original = store_with_tables().await;
    let mut all = files(original.path());
    all.retain(|path, _| path.file_name().is_some_and(|name| name != "lock"));
    // Undamaged, such a copy is as good as the original.
    let copy = copy_to_damage(&all, original.path());
    let undamaged = open(copy.path()).expect("a copy");
    assert_eq!(missing(&undamaged, "undamaged").await, Some(vec![]));
    let mut random = SmallRng::seed_from_u64(7);
    let (mut refused, mut unharmed, mut torn) = (0, 0, 0);
    for (round, (path, bytes)) in all.iter().cycle().take(300).enumerate() {
        let name = path.strip_prefix(original.path()).expect("within");
        let damaged = copy_to_damage(&all, original.path());
        let mut bytes = content(path, bytes).to_vec();
        let Some(last) = bytes.len().checked_sub(1) else { continue };
        let at = random.random_range(0..=last);
        bytes[at] ^= 1 << random.random_range(0..8);
        let _ = fs::remove_file(damaged.path().join(name));
        fs::write(damaged.path().join(name), &bytes).expect("damage");
        let place = format!("round {round}: {} at {at}", name.display());
        let Ok(store) = open(damaged.path()).inspect_err(|error| {
            let named = matches!(error, OpenError::Damaged { .. } | OpenError::Newer { .. });
            assert!(named, "{place}: {error}");
        }) else {
            refused += 1;
            continue;
        };
        match missing(&store, &place).await {
            None => refused += 1,
            Some(missing) if missing.is_empty() => unharmed += 1,
            Some(missing) => {
                assert!(is_log(name) && missing == [ALL - 1], "{place}: {missing:?} lost");
                torn += 1;
            }
        }
    }
    println!("{refused} refused, {unharmed} unharmed, {torn} torn ends");
    assert!(refused > 150, "only {refused} of 300 noticed");
}

/// The records that are not settled as they were; `None` if one of them is reported as corrupt.
async fn missing(store: &EmbeddedStore, place: &str) -> Option<Vec<u32>> {
    let mut missing = Vec::new();
    for number in 0..ALL {
        match store.inspect(Name { run: 0, number }.id()).await {
            Err(StoreError::Corrupt { .. }) => return None,
            Err(other) => panic!("{place}: {other}"),
            Ok(Some(Record { state: State::Settled(settlement), .. })) => {
                assert_eq!(settlement, reply(number), "{place}: record {number} is wrong");
            }
            Ok(_) => missing.push(number),
        }
    }
    Some(missing)
}
