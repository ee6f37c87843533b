use semel_store::scripted::Logs;

use super::*;

#[test]
fn the_mark_is_news_when_it_begins_to_fail_and_when_it_is_kept_again() {
    let directory = tempfile::tempdir().unwrap();
    let room = Room::open(Options::new(directory.path())).unwrap();
    let obstacle = directory.path().join("clock.new");
    let logs = Logs::of_this_thread();
    for _ in 0..2 {
        std::fs::create_dir(&obstacle).unwrap();
        room.keep_mark();
        room.keep_mark();
        std::fs::remove_dir(&obstacle).unwrap();
        room.keep_mark();
        room.keep_mark();
    }
    let said: Vec<String> = logs.text().lines().map(str::to_owned).collect();
    assert_eq!(said.len(), 4, "{said:?}");
    for pair in said.chunks(2) {
        assert!(pair[0].contains("cannot be kept"), "{said:?}");
        assert!(pair[1].contains("kept again"), "{said:?}");
    }
}
