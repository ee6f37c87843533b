//! What fjall really writes passes, and after the cut it opens with exactly what counts. The
//! samples here are for the tests of the parts, too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use tempfile::TempDir;

use super::*;

pub(super) fn open(dir: &Path) -> Result<(Database, Keyspace), fjall::Error> {
    let builder = Database::builder(dir).journal_compression(CompressionType::None);
    let db = builder.worker_threads(1).open()?;
    let records = db.keyspace("records", KeyspaceCreateOptions::default)?;
    Ok((db, records))
}

/// Batch number `n`: always the key `n`, and something else besides.
pub(super) fn commit(db: &Database, records: &Keyspace, n: u32) {
    let side = |n: u32| [b"side ".as_slice(), &n.to_be_bytes()].concat();
    let mut batch = db.batch().durability(Some(PersistMode::Buffer));
    batch.insert(records, n.to_be_bytes(), format!("value {n}"));
    match n % 4 {
        0 => {}
        1 => batch.remove(records, side(n - 1)),
        2 => batch.insert(records, side(n), vec![]),
        _ => {
            batch.insert(records, side(n), [1, 2, 3, 4, 0, 0, 0, 1].repeat(3));
            batch.remove_weak(records, side(n - 1));
        }
    }
    batch.commit().unwrap();
}

/// The batches that fjall finds.
pub(super) fn numbers(records: &Keyspace) -> BTreeSet<u32> {
    let number = |item: fjall::Guard| (*item.key().unwrap()).try_into().map(u32::from_be_bytes);
    records.iter().filter_map(|item| number(item).ok()).collect()
}

pub(super) fn fjall_finds(dir: &Path) -> Result<BTreeSet<u32>, String> {
    let (_db, records) = open(dir).map_err(|error| error.to_string())?;
    Ok(numbers(&records))
}

/// Every file below `dir`, with its contents.
pub(super) fn listing(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(next) = dirs.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                let contents = fs::read(&path).unwrap();
                found.insert(path.strip_prefix(dir).unwrap().to_owned(), contents);
            }
        }
    }
    found
}

/// What a kill leaves: a copy of the files of an open database.
pub(super) fn copy(from: &Path) -> TempDir {
    let to = tempfile::tempdir().unwrap();
    let mut dirs = vec![PathBuf::new()];
    while let Some(next) = dirs.pop() {
        for entry in fs::read_dir(from.join(&next)).unwrap() {
            let entry = entry.unwrap();
            let name = next.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                fs::create_dir(to.path().join(&name)).unwrap();
                dirs.push(name);
            } else {
                fs::copy(entry.path(), to.path().join(&name)).unwrap();
            }
        }
    }
    to
}

/// Like `fs::write`, but without truncating first: some file systems sync after that.
pub(super) fn overwrite(path: &Path, bytes: &[u8]) {
    let mut file = OpenOptions::new().write(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
}

/// A database with one journal, without the zeros, and where its batches end (the first is 0).
pub(super) struct Sample {
    pub(super) dir: TempDir,
    pub(super) ends: Vec<usize>,
    pub(super) bytes: Vec<u8>,
}

impl Sample {
    pub(super) fn new(batches: u32) -> Self {
        let dir = tempfile::tempdir().unwrap();
        drop(open(dir.path()).unwrap());
        // The second open cuts the zeros off: from now on the length tells where a batch ends.
        let (db, records) = open(dir.path()).unwrap();
        let len = || fs::metadata(dir.path().join("0.jnl")).unwrap().len();
        let mut ends = vec![len().try_into().unwrap()];
        for n in 0..batches {
            commit(&db, &records, n);
            ends.push(len().try_into().unwrap());
        }
        drop((db, records));
        let bytes = fs::read(dir.path().join("0.jnl")).unwrap();
        assert_eq!((ends[0], *ends.last().unwrap()), (0, bytes.len()));
        Self { dir, ends, bytes }
    }

    pub(super) fn batch(&self, n: usize) -> Range<usize> {
        self.ends[n]..self.ends[n + 1]
    }

    /// A copy of the database whose journal holds `bytes`.
    pub(super) fn with(&self, bytes: &[u8]) -> TempDir {
        let dir = copy(self.dir.path());
        overwrite(&dir.path().join("0.jnl"), bytes);
        dir
    }

    /// With `bytes` as the journal, and cut, fjall must find the first `whole` batches.
    fn assert_cut(&self, bytes: &[u8], whole: usize, context: &str) {
        // Opening it changes nothing but the journal, so the directory can be used again.
        let dir = &self.dir;
        overwrite(&dir.path().join("0.jnl"), bytes);
        check(dir.path()).unwrap().cut_torn_tail().unwrap();
        let found = fjall_finds(dir.path()).unwrap();
        assert!(found.into_iter().eq(0..u32::try_from(whole).unwrap()), "{context}");
        let end = fs::metadata(dir.path().join("0.jnl")).unwrap().len();
        assert_eq!(end, self.ends[whole] as u64, "{context}");
        assert_eq!(check(dir.path()).unwrap().tail, None, "{context}");
    }
}

#[test]
fn a_torn_tail_is_cut_wherever_it_was_torn() {
    let sample = Sample::new(7);
    for cut in sample.ends[4]..=sample.bytes.len() {
        let whole = sample.ends.iter().filter(|end| **end <= cut).count() - 1;
        sample.assert_cut(&sample.bytes[..cut], whole, &format!("cut at {cut}"));
    }
    // The rest of a journal that was never reopened is zeros, not the end of the file.
    let cut = sample.ends[6] + 20;
    sample.assert_cut(&[&sample.bytes[..cut], &[0; 3000]].concat(), 6, "cut, zeros behind");
}

#[test]
fn a_broken_last_batch_is_cut() {
    let sample = Sample::new(6);
    let last = sample.batch(5);
    let seqno = last.start + 5..last.start + 13;
    for at in last.clone().filter(|at| !seqno.contains(at)) {
        let mut bytes = sample.bytes.clone();
        bytes[at] ^= 1 << (at % 8);
        sample.assert_cut(&bytes, 5, &format!("flip at {at}"));
    }
    // Why it is cut here and not left to fjall: one wrong bit in the hash.
    let mut bytes = sample.bytes.clone();
    bytes[last.end - 5] ^= 1;
    fjall_finds(sample.with(&bytes).path()).expect_err("fjall cuts it by itself");
}

#[test]
fn a_whole_log_is_left_alone() {
    let sample = Sample::new(3);
    let before = listing(sample.dir.path());
    let checked = check(sample.dir.path()).unwrap();
    assert_eq!(checked.tail, None);
    checked.cut_torn_tail().unwrap();
    assert_eq!(listing(sample.dir.path()), before);
}

/// Waits for work in the background to end, so that a copy is of one moment.
fn rest(dir: &Path) {
    let names = || {
        let tree = dir.join("keyspaces/1");
        let dirs = [tree.join("tables"), tree];
        let entries = dirs.iter().flat_map(|dir| fs::read_dir(dir).unwrap());
        entries.map(|entry| entry.unwrap().path()).collect::<BTreeSet<_>>()
    };
    // Background work only makes files with new names.
    let mut before = BTreeSet::new();
    while before != names() {
        before = names();
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_busy_life_always_passes() {
    let dir = tempfile::tempdir().unwrap();
    let mut next = 0;
    for round in 0..3 {
        let (db, records) = open(dir.path()).unwrap();
        for step in 0..6 {
            for _ in 0..5 {
                commit(&db, &records, next);
                next += 1;
            }
            records.remove((next - 3).to_be_bytes()).unwrap();
            records.insert((next - 3).to_be_bytes(), vec![7; 50_000]).unwrap();
            match step {
                1 | 3 => records.rotate_memtable_and_wait().unwrap(),
                4 => records.major_compact().unwrap(),
                _ => {}
            }
            rest(dir.path());
            let killed = copy(dir.path());
            assert_eq!(check(killed.path()).unwrap().tail, None, "round {round}, step {step}");
            assert!(fjall_finds(killed.path()).unwrap().into_iter().eq(0..next));
        }
        drop((db, records));
        assert_eq!(check(dir.path()).unwrap().tail, None, "closed in round {round}");
    }
}

/// A tombstone of the newest seqno can be compacted away, and with it what the tables know of the
/// highest seqno; the log must still rise.
#[test]
fn seqnos_rise_after_everything_was_removed_and_compacted() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        let (db, records) = open(dir.path()).unwrap();
        for n in 0..9u32 {
            records.insert(n.to_be_bytes(), "a value").unwrap();
        }
        for n in 0..9u32 {
            records.remove(n.to_be_bytes()).unwrap();
        }
        records.rotate_memtable_and_wait().unwrap();
        records.major_compact().unwrap();
        drop((db, records));
        assert_eq!(check(dir.path()).unwrap().tail, None);
    }
}

#[test]
fn logs_that_fjall_sealed_pass() {
    let dir = tempfile::tempdir().unwrap();
    let (db, records) = open(dir.path()).unwrap();
    // Never written out, so that the first log has to stay.
    let other = db.keyspace("other", KeyspaceCreateOptions::default).unwrap();
    other.insert("k", "v").unwrap();
    commit(&db, &records, 0);
    // Fjall seals a log of 64 MB when it writes a memtable out.
    for n in 1..5u32 {
        records.insert(n.to_be_bytes(), vec![1; 16_000_000]).unwrap();
    }
    records.rotate_memtable_and_wait().unwrap();
    commit(&db, &records, 5);
    rest(dir.path());
    let killed = copy(dir.path());
    assert!(killed.path().join("0.jnl").exists() && killed.path().join("1.jnl").exists());
    assert_eq!(check(killed.path()).unwrap().tail, None);
    assert!(fjall_finds(killed.path()).unwrap().into_iter().eq(0..6));
    assert_eq!(check(killed.path()).unwrap().tail, None);
}

const VICTIM: &str = "SEMEL_CHECK_VICTIM";

/// Not a test of its own: the process that the next test kills.
#[test]
fn writes_until_killed() {
    let Some(dir) = std::env::var_os(VICTIM) else {
        return;
    };
    let (db, records) = open(Path::new(&dir)).unwrap();
    for n in u32::try_from(records.len().unwrap()).unwrap().. {
        let mut batch = db.batch().durability(Some(PersistMode::Buffer));
        batch.insert(&records, n.to_be_bytes(), vec![n.to_le_bytes()[0]; 100_000]);
        batch.commit().unwrap();
    }
}

#[test]
fn files_of_a_killed_writer_pass() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).unwrap());
    let victim = module_path!().split_once("::").unwrap().1.to_owned() + "::writes_until_killed";
    let log_len = || {
        let names = fs::read_dir(dir.path()).unwrap();
        let lens = names.filter_map(|entry| Some(entry.unwrap().metadata().ok()?.len()));
        lens.sum::<u64>()
    };
    let mut seen = 0;
    for round in 0..5 {
        let before = log_len();
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &victim])
            .env(VICTIM, dir.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        while log_len() == before {
            assert_eq!(child.try_wait().unwrap(), None, "the writer ended by itself");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(10 + round * 7));
        child.kill().unwrap();
        child.wait().unwrap();
        check(dir.path()).unwrap().cut_torn_tail().unwrap();
        let found = fjall_finds(dir.path()).unwrap();
        let count = u32::try_from(found.len()).unwrap();
        assert!(count >= seen && found.into_iter().eq(0..count));
        seen = count;
    }
    assert!(seen > 0);
}
