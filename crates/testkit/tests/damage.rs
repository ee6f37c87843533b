//! Files that are not as they were written: a torn end is mended, everything else refused.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use semel_core::{Claim, Policy, Record, State};
use semel_embedded::{EmbeddedStore, OpenError, Options};
use semel_store::{Settled, Store as _, StoreError};
use semel_testkit::ledger::Name;
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
    assert_same_but_for_lock(&before, &files(store.path()));
}

/// Every file of a store with tables and a log, damaged in many places: either opening or reading
/// says so, or nothing is wrong. Only the end of the log may be lost, as after a crash.
#[tokio::test]
async fn no_flipped_byte_anywhere_gives_a_wrong_or_silently_missing_record() {
    const IN_TABLES: u32 = 200;
    const ALL: u32 = 220;
    let original = store_of(0..IN_TABLES).await;
    // Opened and closed until the log has become tables is slow; filling it does the same.
    let names: Vec<PathBuf> = files(original.path())
        .into_iter()
        .filter(|(path, bytes)| !bytes.is_empty() && !path.ends_with("lock"))
        .map(|(path, _)| path.strip_prefix(original.path()).expect("within").to_owned())
        .collect();
    let _ = ALL;
    let mut random = SmallRng::seed_from_u64(7);
    let (mut refused, mut unharmed, mut torn) = (0, 0, 0);
    for round in 0..300_usize {
        let name = &names[round % names.len()];
        let damaged = copy(original.path());
        let path = damaged.path().join(name);
        let mut bytes = fs::read(&path).expect("a file");
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(bytes.len(), |end| end + 1);
        let at = random.random_range(0..end);
        bytes[at] ^= 1 << random.random_range(0..8);
        fs::write(&path, &bytes).expect("damage");
        match open(damaged.path()) {
            Err(error) => {
                assert!(
                    matches!(error, OpenError::Damaged { .. } | OpenError::Newer { .. }),
                    "{error}"
                );
                refused += 1;
            }
            Ok(store) => match settled_or_corrupt(&store, IN_TABLES).await {
                None => refused += 1,
                Some(found) if found.len() == IN_TABLES as usize => unharmed += 1,
                Some(found) => {
                    let is_log = name.extension().is_some_and(|extension| extension == "jnl");
                    let last = found.len() + 1 == IN_TABLES as usize;
                    assert!(is_log && last, "{} at {at}: {} left", name.display(), found.len());
                    torn += 1;
                }
            },
        }
    }
    println!("{refused} refused, {unharmed} unharmed, {torn} torn ends");
    assert!(refused > 100, "{refused} of 300 noticed");
}

/// What is settled, or `None` if a record said that it is corrupt.
async fn settled_or_corrupt(store: &EmbeddedStore, count: u32) -> Option<Vec<u32>> {
    for number in 0..count {
        let found = store.inspect(Name { run: 0, number }.id()).await;
        if matches!(found, Err(StoreError::Corrupt { .. })) {
            return None;
        }
    }
    Some(settled(store, 0..count).await)
}

/// The lock file names the process that looked last; nothing else may differ.
fn assert_same_but_for_lock(
    before: &BTreeMap<PathBuf, Vec<u8>>,
    after: &BTreeMap<PathBuf, Vec<u8>>,
) {
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    for (path, bytes) in before.iter().filter(|(path, _)| !path.ends_with("store/lock")) {
        if path.file_name().is_some_and(|name| name == "lock") {
            continue;
        }
        assert!(after.get(path) == Some(bytes), "{} was changed", path.display());
    }
}
