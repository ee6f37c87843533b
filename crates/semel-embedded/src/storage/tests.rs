use semel_store::scripted::Logs;

use super::*;

#[test]
fn the_first_failure_to_keep_the_mark_and_its_end_are_logged() {
    let directory = tempfile::tempdir().unwrap();
    let storage = Storage::open(Options::new(directory.path())).unwrap();
    let obstacle = directory.path().join("clock.new");
    let logs = Logs::of_this_thread();
    for _ in 0..2 {
        std::fs::create_dir(&obstacle).unwrap();
        storage.keep_mark();
        storage.keep_mark();
        std::fs::remove_dir(&obstacle).unwrap();
        storage.keep_mark();
        storage.keep_mark();
    }
    let lines: Vec<String> = logs.text().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 4, "{lines:?}");
    for pair in lines.chunks(2) {
        assert!(pair[0].contains("cannot be kept"), "{lines:?}");
        assert!(pair[1].contains("kept again"), "{lines:?}");
    }
}
