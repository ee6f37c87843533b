use std::collections::BTreeMap;

use super::*;

fn listing(path: &Path) -> BTreeMap<String, Vec<u8>> {
    fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            let content = fs::read(entry.path()).unwrap_or_default();
            (entry.file_name().into_string().unwrap(), content)
        })
        .collect()
}

/// Takes `path` and expects a refusal that leaves everything as it was.
fn refused(path: &Path) -> OpenError {
    let before = listing(path);
    let error = Directory::take(path).unwrap_err();
    assert_eq!(listing(path), before, "{error}");
    error
}

#[test]
fn a_missing_directory_is_made_and_an_empty_one_taken() {
    let temp = tempfile::tempdir().unwrap();
    for path in [temp.path().join("a/b/c"), temp.path().join("a")] {
        let _ = fs::remove_dir_all(&path);
        let mut directory = Directory::take(&path).unwrap();
        assert_eq!(directory.state(), Creation::Started);
        fs::create_dir(directory.database()).unwrap();
        directory.finish().unwrap();
        drop(directory);
        assert_eq!(Directory::take(&path).unwrap().state(), Creation::Finished);
    }
}

#[test]
fn an_interrupted_creation_is_started_over() {
    let temp = tempfile::tempdir().unwrap();
    // Killed after the lock and a half-written marker ...
    fs::write(temp.path().join(LOCK), "1\n").unwrap();
    fs::write(temp.path().join(MARKER_NEW), "sem").unwrap();
    let directory = Directory::take(temp.path()).unwrap();
    assert_eq!(directory.state(), Creation::Started);
    // ... or in the middle of creating the database.
    fs::create_dir(directory.database()).unwrap();
    fs::write(directory.database().join("0.jnl"), "half").unwrap();
    drop(directory);
    let directory = Directory::take(temp.path()).unwrap();
    assert_eq!(directory.state(), Creation::Started);
    directory.start_over().unwrap();
    assert!(!directory.database().exists());
    directory.start_over().unwrap();
}

#[test]
fn a_directory_with_other_things_is_not_touched() {
    let temp = tempfile::tempdir().unwrap();
    fs::write(temp.path().join("thesis.txt"), "draft").unwrap();
    let error = refused(temp.path());
    assert!(matches!(&error, OpenError::NotOurs { found, .. } if found == "thesis.txt"));
    assert!(error.to_string().contains("name an empty or a new directory"), "{error}");
}

#[test]
fn a_file_is_not_a_directory() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("file");
    fs::write(&file, "content").unwrap();
    assert!(matches!(Directory::take(&file), Err(OpenError::NotADirectory { .. })));
    assert_eq!(fs::read(&file).unwrap(), b"content");
}

#[test]
fn a_newer_format_is_not_touched() {
    let temp = tempfile::tempdir().unwrap();
    fs::write(temp.path().join(MARKER), "semel embedded store, format 2, created\n").unwrap();
    let error = refused(temp.path());
    assert!(matches!(error, OpenError::Newer { found: 2, known: 1, .. }), "{error}");
}

#[test]
fn a_damaged_marker_is_not_touched() {
    for marker in [
        "",
        "semel",
        "semel embedded store, format x, created",
        "semel embedded store, format 1, odd",
    ] {
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join(MARKER), marker).unwrap();
        let error = refused(temp.path());
        assert!(
            matches!(&error, OpenError::Damaged { file, .. } if file.ends_with(MARKER)),
            "{error}"
        );
    }
    let temp = tempfile::tempdir().unwrap();
    fs::write(temp.path().join(MARKER), [0xff, 0xfe]).unwrap();
    assert!(matches!(refused(temp.path()), OpenError::Damaged { .. }));
}

#[test]
fn a_second_owner_gets_the_id_of_the_first() {
    let temp = tempfile::tempdir().unwrap();
    let first = Directory::take(temp.path()).unwrap();
    first.sign();
    let error = refused(temp.path());
    let me = std::process::id();
    assert!(matches!(error, OpenError::Locked { pid: Some(pid), .. } if pid == me), "{error}");
    drop(first);
    assert!(Directory::take(temp.path()).is_ok());
}
