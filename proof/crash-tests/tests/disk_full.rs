//! A full disk is a clear error while it lasts, and nothing acknowledged is lost by it.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use semel_core::{Claim, Lease, Policy, Reply, Settlement, State, Timestamp};
use semel_crash_tests::image::{Mount, can_mount};
use semel_crash_tests::ledger::Name;
use semel_embedded::{EmbeddedStore, OpenError, Options};
use semel_store::{Clock as _, Renewed, Settled, SteadyClock, Store as _, StoreError};

fn large(name: Name) -> Settlement {
    Settlement::Completed(Reply::new(format!("{name:?}").repeat(2_000)))
}

async fn settle(store: &EmbeddedStore, name: Name) -> Result<(), StoreError> {
    match store.claim(&name.attempt(), &Policy::default()).await? {
        Claim::Execute(lease) => {
            assert_eq!(store.settle(&lease, large(name)).await?, Settled::Recorded);
            Ok(())
        }
        other => panic!("{name:?}: {other:?}"),
    }
}

async fn assert_kept(store: &EmbeddedStore, names: &[Name]) {
    for name in names {
        let record = store.inspect(name.id()).await.expect("readable").expect("kept");
        assert_eq!(record.state, State::Settled(large(*name)), "{name:?}");
    }
}

/// Settles records until the store refuses; the error it refused with.
async fn fill(store: &EmbeddedStore, run: u32, kept: &mut Vec<Name>) -> StoreError {
    for number in 0..100_000 {
        let name = Name { run, number };
        match settle(store, name).await {
            Ok(()) => kept.push(name),
            Err(error) => return error,
        }
    }
    panic!("the disk never filled up");
}

async fn fills_and_recovers(device: &Mount) {
    let filler = device.path().join("filler");
    fs::write(&filler, vec![1; 44 << 20]).expect("a filler");
    let path = device.path().join("store");
    let store = Options::new(&path).sweep_every(None).open().expect("a store");
    let mut kept = Vec::new();
    for run in 0..2 {
        let error = fill(&store, run, &mut kept).await;
        assert!(error.is_passing(), "{error}");
        assert!(error.to_string().contains("free some"), "{error}");
        assert_kept(&store, &kept).await;
        // Still full: it fails again, at once, and does not hang.
        let name = Name { run, number: 200_000 };
        assert!(settle(&store, name).await.is_err());
        if run == 0 {
            fs::remove_file(&filler).expect("space");
            // The same process goes on by itself.
            settle(&store, Name { run, number: 300_000 }).await.expect("space is back");
            kept.push(Name { run, number: 300_000 });
            assert_kept(&store, &kept).await;
        }
    }
    drop(store);
    // And every acknowledged record is there after a restart on the full disk, or the restart reports
    // that there is no space.
    match Options::new(&path).sweep_every(None).open() {
        Ok(store) => assert_kept(&store, &kept).await,
        Err(error) => assert!(matches!(error, OpenError::DiskFull { .. }), "{error}"),
    }
}

#[tokio::test]
async fn a_full_tmpfs_is_an_error_while_it_lasts() {
    if let Err(why) = can_mount() {
        println!("NOT RUN: disk full on tmpfs: {why}");
        return;
    }
    fills_and_recovers(&Mount::memory(64 << 20).expect("a small disk")).await;
}

#[tokio::test]
async fn a_full_ext4_is_an_error_while_it_lasts() {
    if let Err(why) = can_mount() {
        println!("NOT RUN: disk full on ext4: {why}");
        return;
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let device = Mount::ext4(&scratch.path().join("device"), 80 << 20).expect("a small disk");
    fills_and_recovers(&device).await;
}

/// Settles records while the holder of `lease` renews it, until the disk is full; until when the
/// lease was acknowledged to last.
async fn fill_while_renewing(store: &EmbeddedStore, lease: &Lease, policy: &Policy) -> Timestamp {
    let mut last = lease.until();
    for number in 1..100_000 {
        match store.renew(lease, policy.lease()).await {
            Ok(Renewed::Until { until, .. }) => last = until,
            Ok(refused) => panic!("{refused:?}"),
            Err(_) => return last,
        }
        if settle(store, Name { run: 1, number }).await.is_err() {
            return last;
        }
    }
    panic!("the disk never filled up");
}

/// The process that executed never executes again because of its own disk: a full disk that lasts
/// longer than the lease does not end it.
#[tokio::test]
async fn a_full_disk_longer_than_the_lease_ends_no_lease() {
    if let Err(why) = can_mount() {
        println!("NOT RUN: a full disk longer than the lease: {why}");
        return;
    }
    let device = Mount::memory(64 << 20).expect("a small disk");
    let filler = device.path().join("filler");
    fs::write(&filler, vec![1; 44 << 20]).expect("a filler");
    let store = Options::new(device.path().join("store")).open().expect("a store");
    let policy = Policy::builder().lease(Duration::from_secs(1)).build().expect("a policy");
    settle(&store, Name { run: 0, number: 0 }).await.expect("room for one");
    let name = Name { run: 0, number: 1 };
    let claim = store.claim(&name.attempt(), &policy).await.expect("a lease");
    let Claim::Execute(lease) = claim else { panic!("{claim:?}") };
    let until = fill_while_renewing(&store, &lease, &policy).await;
    let clock = SteadyClock::start();
    while clock.now() <= until {
        assert!(store.settle(&lease, large(name)).await.is_err(), "the disk is full");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let known = store.claim(&Name { run: 0, number: 0 }.attempt(), &policy).await;
    assert!(matches!(known, Ok(Claim::Replay { .. })), "replays need no space: {known:?}");
    fs::remove_file(&filler).expect("space");
    // Before and after the store was opened again.
    let retry = store.claim(&name.attempt(), &policy).await;
    assert!(matches!(retry, Ok(Claim::InFlight { .. })), "{retry:?}");
    assert!(store.health().await.is_ok());
    let retry = store.claim(&name.attempt(), &policy).await;
    assert!(matches!(retry, Ok(Claim::InFlight { .. })), "{retry:?}");
    assert_eq!(store.settle(&lease, large(name)).await.expect("space"), Settled::Recorded);
    let replay = store.claim(&name.attempt(), &policy).await;
    assert!(matches!(replay, Ok(Claim::Replay { .. })), "{replay:?}");
}

#[test]
fn a_disk_that_is_full_from_the_start_is_refused() {
    if let Err(why) = can_mount() {
        println!("NOT RUN: opening on a full disk: {why}");
        return;
    }
    let device = Mount::memory(1 << 20).expect("a small disk");
    let _ = fs::write(device.path().join("filler"), vec![1; 2 << 20]);
    let error = Options::new(device.path().join("store")).open().expect_err("no space");
    assert!(matches!(error, OpenError::DiskFull { .. }), "{error:?}");
    assert!(error.to_string().contains("free some"), "{error}");
    assert!(!device.path().join("store").exists(), "a creation that failed is taken back");
}

/// Opens as a user without rights; root may do everything, so a child process opens it.
#[test]
fn a_directory_without_permission_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("store");
    drop(Options::new(&path).open().expect("a store"));
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("mode");
    // A copy: another user may not be let into where the tests were built.
    let program = directory.path().join("semel-crash");
    // `cp` copies, not this process: a descriptor open for writing here would be inherited by any child
    // that another test forks meanwhile, and the copy could not be started ("busy").
    let original = env!("CARGO_BIN_EXE_semel-crash");
    let copied = Command::new("cp").arg(original).arg(&program).status().expect("cp");
    assert!(copied.success(), "no copy of the program");
    let mut writer = Command::new(&program);
    writer.arg("writer").arg(&path).args(["--run", "0", "--durability", "power", "--limit", "1"]);
    if rustix::process::geteuid().is_root() {
        let other_user = 65_534;
        // The directory above must let it pass, or the wrong one would be named.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(directory.path(), open).expect("mode");
        writer.uid(other_user).gid(other_user);
    } else {
        let none = std::os::unix::fs::PermissionsExt::from_mode(0o000);
        fs::set_permissions(&path, none).expect("mode");
    }
    let output = writer.current_dir(Path::new("/")).output().expect("a child");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(stderr.contains("no permission for") && stderr.contains("chown"), "{stderr}");
}
