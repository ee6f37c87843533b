//! Log lines about the clock at the start. Each test captures them: see [`Logs::install`].

use std::path::Path;
use std::sync::Arc;

use semel_core::Timestamp;
use semel_embedded::{EmbeddedStore, Options};
use semel_store::ManualClock;
use semel_store::scripted::Logs;

const DAY: u64 = 24 * 60 * 60 * 1_000;
const NOON: u64 = 1_700_000_000_000;

fn open(path: &Path, millis: u64) -> EmbeddedStore {
    let clock = Arc::new(ManualClock::at(Timestamp::from_millis(millis)));
    Options::new(path).clock(clock).sweep_every(None).open().expect("a store")
}

/// The log lines of starts at these times, each on the directory of the previous one.
fn log_lines(starts: &[u64]) -> Vec<String> {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("store");
    let log_lines = starts.iter().map(|&start| {
        let logs = Logs::of_this_thread();
        drop(open(&path, start));
        logs.text()
    });
    log_lines.collect()
}

fn assert_contains(text: &str, words: &[&str]) {
    assert_eq!(text.lines().count(), 1, "{text}");
    for word in words {
        assert!(text.contains(word), "no {word:?} in {text}");
    }
}

#[test]
fn a_plausible_clock_is_no_news() {
    assert_eq!(log_lines(&[NOON, NOON + DAY / 48, NOON + DAY / 48 - 1_000]), ["", "", ""]);
}

#[test]
fn a_clock_that_is_ahead_is_a_warning_with_a_cure_and_so_is_the_end_of_it() {
    let log_lines = log_lines(&[NOON, NOON + 2 * DAY, NOON + DAY / 24]);
    assert_contains(
        &log_lines[1],
        &["172800s", "far ahead", "set the machine's clock and restart"],
    );
    assert_contains(&log_lines[2], &["172800s", "was ahead at an earlier start"]);
}

#[test]
fn a_clock_that_is_behind_is_a_warning_with_a_cure() {
    let log_lines = log_lines(&[NOON, NOON - 2 * DAY]);
    assert_contains(
        &log_lines[1],
        &["172800s", "behind", "set the machine's clock", "the file `clock`"],
    );
}

/// The files are from today, and the clock is of the year 2023.
#[test]
fn a_start_with_nothing_to_compare_with_is_a_warning() {
    let directory = tempfile::tempdir().expect("a directory");
    drop(open(directory.path(), NOON));
    std::fs::remove_file(directory.path().join("clock")).expect("gone");
    let logs = Logs::of_this_thread();
    drop(open(directory.path(), NOON));
    assert_contains(&logs.text(), &["no mark of the clock", "nothing is swept for an hour"]);
}

/// A failure to write the mark is logged once, and not every minute.
#[test]
fn a_mark_that_cannot_be_kept_is_a_warning_with_a_cure() {
    let directory = tempfile::tempdir().expect("a directory");
    drop(open(directory.path(), NOON));
    std::fs::create_dir(directory.path().join("clock.new")).expect("an obstacle");
    let logs = Logs::of_this_thread();
    let store = open(directory.path(), NOON + DAY / 720);
    assert_contains(&logs.text(), &["clock.new", "cannot be kept", "free space and inodes"]);
    drop(store);
}
