use tempfile::TempDir;

use super::super::check as check_all;
use super::super::tests::{commit, copy, fjall_finds, listing, open, overwrite};
use super::*;

/// A database whose records are all in tables: the log was removed after they had been written out.
fn in_tables() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let (db, records) = open(dir.path()).unwrap();
    for n in 0..40 {
        commit(&db, &records, n);
    }
    records.rotate_memtable_and_wait().unwrap();
    records.major_compact().unwrap();
    for n in 40..80 {
        commit(&db, &records, n);
    }
    records.rotate_memtable_and_wait().unwrap();
    drop((db, records));
    // Opening once more removes older manifests, and tables that were compacted.
    assert_eq!(fjall_finds(dir.path()).unwrap().len(), 80);
    fs::write(dir.path().join("0.jnl"), b"").unwrap();
    assert_eq!(fjall_finds(copy(dir.path()).path()).unwrap().len(), 80);
    dir
}

/// The error must name `file`, and nothing may have changed.
fn assert_refused(dir: &Path, file: &Path, context: &str) {
    let before = listing(dir);
    let error = check_all(dir).expect_err(context);
    assert!(matches!(error, OpenError::Damaged { .. }), "{context}: {error}");
    let path = dir.join(file);
    let path = path.to_str().unwrap().trim_end_matches('/');
    assert!(error.to_string().contains(path), "{context}: {error} does not name {path}");
    assert!(listing(dir) == before, "{context}: the check must not write");
}

/// The manifest in force of a tree.
fn manifest_of(tree: &Path) -> PathBuf {
    let (version, _) = parse_current(&fs::read(tree.join("current")).unwrap()).unwrap();
    tree.join(format!("v{version}"))
}

fn manifest_of_records(dir: &Path) -> PathBuf {
    manifest_of(&dir.join("keyspaces/1"))
}

#[test]
fn every_flipped_byte_is_refused_by_name() {
    let dir = in_tables();
    let mut files = vec![dir.path().join("version")];
    for tree in ALWAYS.map(|id| dir.path().join("keyspaces").join(id)) {
        files.extend([manifest_of(&tree), tree.join("current")]);
    }
    check_all(dir.path()).unwrap().cut_torn_tail().unwrap();
    for path in files {
        let good = fs::read(&path).unwrap();
        let refused = |bad: &[u8], context: &str| {
            overwrite(&path, bad);
            assert_refused(dir.path(), &path, &format!("{}, {context}", path.display()));
        };
        for at in 0..good.len() {
            for mask in [1, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[at] ^= mask;
                refused(&bad, &format!("byte {at}, mask {mask}"));
            }
            refused(&good[..at], &format!("cut to {at}"));
        }
        overwrite(&path, &good);
    }
    check_all(dir.path()).unwrap().cut_torn_tail().unwrap();
    assert_eq!(fjall_finds(dir.path()).unwrap().len(), 80);
}

/// Why this module exists.
#[test]
fn fjall_alone_deletes_tables_after_one_flipped_bit() {
    let dir = in_tables();
    let tables = dir.path().join("keyspaces/1/tables");
    let count = || fs::read_dir(&tables).unwrap().count();
    let path = manifest_of_records(dir.path());
    let mut manifest = fs::read(&path).unwrap();
    assert_eq!(table_ids(&manifest).unwrap().len(), count());
    let list = section(&manifest, b"tables").unwrap();
    // One level less: what compaction put into the last is no longer listed.
    let levels = manifest.windows(list.len()).position(|bytes| bytes == list).unwrap();
    manifest[levels] ^= 1;
    fs::write(&path, manifest).unwrap();

    let name = path.strip_prefix(dir.path()).unwrap();
    assert_refused(dir.path(), name, "a level less");
    let before = count();
    let found = fjall_finds(dir.path()).expect("fjall opens it");
    assert!(found.len() < 80, "fjall found the records elsewhere");
    assert!(count() < before, "the table is still there");
}

#[test]
fn fjall_alone_deletes_a_tree_without_current() {
    let dir = in_tables();
    fs::remove_file(dir.path().join("keyspaces/1/current")).unwrap();
    assert_eq!(fjall_finds(dir.path()).unwrap().len(), 0);
}

#[test]
fn every_missing_file_is_refused_by_name() {
    let good = in_tables();
    let manifest = manifest_of_records(good.path());
    let table = table_ids(&fs::read(&manifest).unwrap()).unwrap()[0];
    let manifest = manifest.strip_prefix(good.path()).unwrap().to_owned();
    let files = [
        "version".into(),
        "0.jnl".into(),
        "keyspaces/0/current".into(),
        "keyspaces/1/current".into(),
        format!("keyspaces/1/tables/{table}").into(),
        manifest,
    ];
    for file in files {
        let dir = copy(good.path());
        fs::remove_file(dir.path().join(&file)).unwrap();
        // There is no knowing what the missing log was called.
        let named = if file == Path::new("0.jnl") { Path::new("") } else { &file };
        assert_refused(dir.path(), named, &format!("without {}", file.display()));
    }
    for tree in ["keyspaces/0", "keyspaces/1", "keyspaces"] {
        let dir = copy(good.path());
        fs::remove_dir_all(dir.path().join(tree)).unwrap();
        assert_refused(dir.path(), Path::new(tree), &format!("without {tree}"));
    }
}

#[test]
fn strangers_among_the_trees() {
    let dir = in_tables();
    // Fjall skips files, and a kill can leave a file that was to become `current`.
    fs::write(dir.path().join("keyspaces/notes"), "x").unwrap();
    fs::write(dir.path().join("keyspaces/1/.tmpAbCdEf"), "x").unwrap();
    // A table that was being written, and an older manifest.
    fs::write(dir.path().join("keyspaces/1/tables/999"), "x").unwrap();
    fs::write(dir.path().join("keyspaces/1/v0"), "x").unwrap();
    check_all(dir.path()).unwrap().cut_torn_tail().unwrap();
    assert_eq!(fjall_finds(copy(dir.path()).path()).unwrap().len(), 80);
    // It deletes a directory that is not a tree.
    fs::create_dir(dir.path().join("keyspaces/7")).unwrap();
    assert_refused(dir.path(), Path::new("keyspaces/7/current"), "a stranger");
}

/// A checksum that fits does not make sense of nonsense.
#[test]
fn a_list_of_tables_that_cannot_be_read() {
    let dir = in_tables();
    let path = manifest_of_records(dir.path());
    let good = fs::read(&path).unwrap();
    let current = dir.path().join("keyspaces/1/current");
    let mut current_bytes = fs::read(&current).unwrap();
    for len in 0..good.len() {
        assert_eq!(table_ids(&good[..len]), None, "cut to {len}");
    }
    for bad in [Vec::new(), vec![0; 37], vec![0xff; 1000], good[..good.len() - 1].to_vec()] {
        current_bytes[8..24].copy_from_slice(&xxh3_128(&bad).to_le_bytes());
        fs::write(&current, &current_bytes).unwrap();
        fs::write(&path, bad).unwrap();
        assert_refused(dir.path(), path.strip_prefix(dir.path()).unwrap(), "nonsense");
    }
}
