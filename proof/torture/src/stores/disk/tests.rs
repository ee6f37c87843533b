//! What is left of a disk when its holder ends: nothing.

use std::process::{Child, Command, Stdio};
use std::thread;

use super::*;

/// Where a process that is to be killed holds its disk.
const VICTIM: &str = "TORTURE_DISK_VICTIM";
/// Looks, 20 ms apart: a minute.
const LOOKS: usize = 3_000;

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..LOOKS {
        if holds() {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("it never happened that {what}");
}

/// Why nothing can be mounted here, if so.
fn why_not() -> Option<String> {
    let scratch = tempfile::tempdir().expect("a directory");
    let disk = Disk::new(scratch.path()).expect("a directory");
    disk.missing().map(str::to_owned)
}

fn is_mounted(directory: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").expect("a list");
    mounts.lines().any(|line| line.split(' ').nth(1) == directory.to_str())
}

/// Another process that holds a disk in `scratch`.
fn victim(scratch: &Path) -> Child {
    let own = module_path!().split_once("::").expect("a path").1.to_owned();
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", &(own + "::holds_a_disk_until_killed")])
        .env(VICTIM, scratch)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("a victim")
}

/// Does nothing by itself: the next test starts it as a process of its own.
#[test]
fn holds_a_disk_until_killed() {
    let Some(scratch) = std::env::var_os(VICTIM) else { return };
    let disk = Disk::new(Path::new(&scratch)).expect("a disk");
    let mut held = File::create(disk.directory.join("held")).expect("a file");
    held.write_all(b"bytes").expect("written");
    // Runs until its end, unless it is killed.
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// The story: a killed runner left a gibibyte of memory in use.
#[test]
fn a_disk_is_gone_when_its_holder_is_killed() {
    if let Some(why) = why_not() {
        println!("NOT RUN: the disk of a runner that is killed: {why}");
        return;
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let mut victim = victim(scratch.path());
    let directory = scratch.path().canonicalize().expect("a path").join("disk");
    wait_until("the disk is there", || directory.join("held").exists());
    assert!(is_mounted(&directory));
    victim.kill().expect("killed");
    victim.wait().expect("gone");
    wait_until("the disk is unmounted", || !is_mounted(&directory));
    assert!(!directory.join("held").exists());
}

#[test]
fn a_dropped_disk_is_unmounted_while_in_use() {
    if let Some(why) = why_not() {
        println!("NOT RUN: the disk of a runner that is done: {why}");
        return;
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let disk = Disk::new(scratch.path()).expect("a disk");
    let directory = disk.directory.canonicalize().expect("a path");
    let _held = File::create(directory.join("held")).expect("a file");
    assert!(is_mounted(&directory));
    drop(disk);
    assert!(!is_mounted(&directory));
}
