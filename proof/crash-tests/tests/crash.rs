//! Nothing acknowledged is lost: kills and power cuts. `semel-crash` does the same for longer.

use std::path::Path;

use semel_crash_tests::image::can_mount;
use semel_crash_tests::rounds::{self, Tally};
use semel_embedded::Durability;

const PROGRAM: &str = env!("CARGO_BIN_EXE_semel-crash");

/// A crash test that never leaves the log proves nothing about tables, merging and rotation. Only the
/// work of the processes that crashed is counted.
fn assert_beyond_the_log(tally: &Tally) {
    assert!(tally.work.tables >= 20, "the engine must write tables: {tally:?}");
    assert!(tally.work.rotations >= 1, "the engine must rotate its log: {tally:?}");
}

async fn kill(durability: Durability, rounds: u32) -> Tally {
    let scratch = tempfile::tempdir().expect("a directory");
    let store = scratch.path().join("store");
    let tally = rounds::kill(Path::new(PROGRAM), &store, durability, rounds, |_| {})
        .await
        .unwrap_or_else(|error| panic!("{error:#}"));
    println!("{tally:?}");
    assert!(tally.acknowledged > 1_000, "the kills must fall into real work: {tally:?}");
    assert!(tally.at_tables >= 1, "some must fall into the writing of a table: {tally:?}");
    assert!(tally.unfinished >= 1, "some must leave a table unfinished: {tally:?}");
    assert_beyond_the_log(&tally);
    tally
}

#[tokio::test]
async fn kill_9_loses_nothing_with_power_durability() {
    let tally = kill(Durability::Power, 40).await;
    assert!(tally.work.merged >= 8, "the engine must merge tables: {tally:?}");
    assert!(tally.at_rotations >= 1, "some must fall into a rotation of the log: {tally:?}");
}

#[tokio::test]
async fn kill_9_loses_nothing_with_process_durability() {
    kill(Durability::Process, 20).await;
}

/// The results of power cuts; `None`, and printed, where file systems cannot be mounted.
async fn cut_power(durability: Durability, images: u32) -> Option<Tally> {
    if let Err(why) = can_mount() {
        println!("NOT RUN: power cuts with {durability:?} durability: {why}");
        return None;
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let cuts = rounds::cut_power(Path::new(PROGRAM), scratch.path(), durability, images, |_| {});
    let tally = cuts.await.unwrap_or_else(|error| panic!("{error:#}"));
    println!("{tally:?}");
    Some(tally)
}

#[tokio::test]
async fn a_power_cut_loses_nothing_with_power_durability() {
    if let Some(tally) = cut_power(Durability::Power, 20).await {
        assert_eq!((tally.crashes, tally.lost), (20, 0), "{tally:?}");
        assert_beyond_the_log(&tally);
        assert!(tally.work.merged >= 8, "the engine must merge tables: {tally:?}");
    }
}

/// Shows that the test above can fail: without syncs, the same images lack acknowledged records.
#[tokio::test]
async fn a_power_cut_without_syncs_is_noticed() {
    if let Some(tally) = cut_power(Durability::Process, 5).await {
        assert!(tally.lost > 0, "{tally:?}");
    }
}
