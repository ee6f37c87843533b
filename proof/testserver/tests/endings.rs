//! Nothing survives its holder.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use semel_testserver::Postgres;

/// Looks, 20 ms apart: a minute.
const LOOKS: usize = 3_000;

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..LOOKS {
        if holds() {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("it never happened that {what}");
}

/// The state and the parent of a process, if it is there. A zombie is not.
fn look_at(pid: i32) -> Option<(char, i32)> {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = line.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    (!"ZX".contains(state)).then_some((state, parent))
}

fn children(parent: i32) -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("a list").flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(|pid| look_at(*pid).is_some_and(|(_, of)| of == parent)).collect()
}

fn are_gone(processes: &[i32]) -> bool {
    processes.iter().all(|pid| look_at(*pid).is_none())
}

fn send(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).expect("an id"), signal).expect("sent");
}

/// Another process that holds a server.
struct Holder {
    child: Child,
    directory: PathBuf,
    server: Vec<i32>,
    /// What clears up after the holder.
    cleanup: i32,
    _output: BufReader<ChildStdout>,
}

// === impl Holder ===

impl Holder {
    fn start() -> Self {
        Self::start_with(&mut Command::new(env!("CARGO_BIN_EXE_semel-testserver")))
    }

    fn start_in(directory: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_semel-testserver"));
        Self::start_with(command.arg(directory))
    }

    fn start_with(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a holder");
        let mut output = BufReader::new(child.stdout.take().expect("output"));
        let (mut url, mut directory) = (String::new(), String::new());
        output.read_line(&mut url).expect("a URL");
        output.read_line(&mut directory).expect("a directory");
        assert!(url.starts_with("postgres://semel:"), "{url}");
        let directory = PathBuf::from(directory.trim());
        let postmaster = postmaster_in(&directory);
        let id = i32::try_from(child.id()).expect("an id");
        let cleanup =
            children(id).into_iter().find(|pid| *pid != postmaster).expect("a cleanup process");
        let server = [vec![postmaster], children(postmaster)].concat();
        assert!(server.len() > 3, "{server:?}");
        Self { child, directory, server, cleanup, _output: output }
    }

    fn kill(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("gone");
    }
}

fn postmaster_in(directory: &Path) -> i32 {
    let lock = fs::read_to_string(directory.join("data/postmaster.pid")).expect("a lock");
    lock.lines().next().expect("a line").parse().expect("an id")
}

#[test]
fn a_drop_ends_all_processes_and_removes_the_directory() {
    let postgres = Postgres::start().expect("a server");
    let (processes, directory) = (postgres.processes(), postgres.directory().to_owned());
    assert!(processes.len() > 3, "{processes:?}");
    drop(postgres);
    assert!(are_gone(&processes), "{processes:?}");
    assert!(!directory.exists());
}

#[test]
fn a_drop_ends_a_frozen_server() {
    let postgres = Postgres::start().expect("a server");
    let (processes, directory) = (postgres.processes(), postgres.directory().to_owned());
    postgres.pause().expect("frozen");
    drop(postgres);
    assert!(are_gone(&processes), "{processes:?}");
    assert!(!directory.exists());
}

/// The test of a client may kill the postmaster alone; its children are orphans then.
#[test]
fn a_drop_ends_processes_without_a_postmaster() {
    let postgres = Postgres::start().expect("a server");
    let (processes, directory) = (postgres.processes(), postgres.directory().to_owned());
    let postmaster = postmaster_in(&directory);
    postgres.pause().expect("frozen");
    send(postmaster, Signal::KILL);
    wait_until("the postmaster is gone", || look_at(postmaster).is_none());
    drop(postgres);
    assert!(are_gone(&processes), "{processes:?}");
    assert!(!directory.exists());
}

/// The shared memory of `PostgreSQL` has a name in the lock, and outlives a server that is killed.
#[test]
fn a_drop_gives_back_the_memory_of_a_killed_server() {
    let postgres = Postgres::start().expect("a server");
    let lock = fs::read_to_string(postgres.directory().join("data/postmaster.pid"));
    let lock = lock.expect("a lock");
    let segment = lock.lines().nth(6).and_then(|line| line.split_whitespace().nth(1));
    let segment = segment.expect("a segment").to_owned();
    let is_there = || {
        let list = fs::read_to_string("/proc/sysvipc/shm").expect("a list");
        list.lines().any(|line| line.split_whitespace().nth(1) == Some(&segment))
    };
    postgres.kill().expect("killed");
    assert!(is_there());
    drop(postgres);
    assert!(!is_there());
}

/// The kernel takes the thread that started a process for its parent.
#[test]
fn a_server_outlives_the_thread_that_started_it() {
    let postgres = thread::spawn(|| Postgres::start().expect("a server")).join().expect("ended");
    assert_eq!(postgres.psql("select 1").expect("an answer"), "1");
    thread::scope(|scope| {
        scope.spawn(|| postgres.kill().and_then(|()| postgres.start_again()).expect("a server"));
    });
    assert_eq!(postgres.psql("select 1").expect("an answer"), "1");
}

#[test]
fn a_holder_that_is_done_leaves_nothing() {
    let mut holder = Holder::start();
    drop(holder.child.stdin.take());
    assert!(holder.child.wait().expect("ended").success());
    assert!(are_gone(&holder.server), "{:?}", holder.server);
    assert!(are_gone(&[holder.cleanup]));
    assert!(!holder.directory.exists());
}

#[test]
fn a_holder_that_is_killed_leaves_nothing() {
    let mut holder = Holder::start();
    holder.kill();
    wait_until("the server ends", || are_gone(&holder.server));
    wait_until("its directory is removed", || !holder.directory.exists());
    wait_until("the cleanup process ends", || are_gone(&[holder.cleanup]));
}

/// Without the cleanup process, only the kernel signals the server.
#[test]
fn a_holder_that_is_killed_with_its_cleanup_leaves_no_process() {
    let mut holder = Holder::start();
    send(holder.cleanup, Signal::KILL);
    holder.kill();
    wait_until("the server ends", || are_gone(&holder.server));
    fs::remove_dir_all(&holder.directory).expect("removed");
}

/// A frozen server does not handle the kernel's signal.
#[test]
fn a_holder_that_is_killed_leaves_no_frozen_server() {
    let mut holder = Holder::start();
    holder.server.iter().for_each(|pid| send(*pid, Signal::STOP));
    wait_until("the server is frozen", || {
        holder.server.iter().all(|pid| look_at(*pid).is_none_or(|(state, _)| state == 'T'))
    });
    holder.kill();
    wait_until("the server ends", || are_gone(&holder.server));
    wait_until("its directory is removed", || !holder.directory.exists());
}

#[test]
fn a_directory_that_is_kept_can_be_used_as_soon_as_its_holder_is_killed() {
    let scratch = tempfile::tempdir().expect("a directory");
    fs::set_permissions(scratch.path(), Permissions::from_mode(0o711)).expect("open to all");
    let directory = scratch.path().join("kept");
    for _ in 0..3 {
        let mut holder = Holder::start_in(&directory);
        // So that there is something to wait for.
        send(holder.server[0], Signal::STOP);
        holder.kill();
        let postgres = Postgres::options().directory(&directory).start().expect("a server");
        assert!(are_gone(&holder.server), "{:?}", holder.server);
        // The cleanup of the other does not take this server for its own.
        wait_until("the cleanup process ends", || are_gone(&[holder.cleanup]));
        assert_eq!(postgres.psql("select 1").expect("an answer"), "1");
    }
}
