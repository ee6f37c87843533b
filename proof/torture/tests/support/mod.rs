//! What all runs share: the program, and a machine that is for one of them at a time.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use semel_torture::build_with_bugs;

/// The program that bugs can be planted into, under a name of its own: each build, also one that changes nothing, takes
/// the usual name away for a moment, and gateways are started all the time.
pub(crate) fn semel() -> PathBuf {
    static SEMEL: OnceLock<PathBuf> = OnceLock::new();
    let link = || {
        let built = build_with_bugs().expect("the gateway");
        let name = format!("semel-{}", std::process::id());
        let own = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_file(&own);
        std::fs::hard_link(built, &own).expect("another name for the gateway");
        own
    };
    SEMEL.get_or_init(link).clone()
}

/// Waits for its turn, which lasts until this is dropped.
///
/// A run shares two cores with its clients, servers and gateways, so one comes after the other. Test
/// programs are started beside each other (`scripts/run_tests.py`), so the lock is one between processes.
pub(crate) fn one_at_a_time() -> File {
    let file = File::create(turn()).expect("a file to lock");
    file.lock().expect("a turn");
    file
}

/// The process with the lock on this file has its turn.
pub(crate) fn turn() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("one-fault-run-at-a-time")
}
