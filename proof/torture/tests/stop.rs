//! Ctrl-C ends a run at once, and all that it started.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Looks, 20 ms apart: a minute.
const LOOKS: usize = 3_000;

/// Takes its time, and prints its process id.
const SLOW_GATEWAY: &str = r#"#!/bin/sh
[ "$1" = gateway ] || exit 0
echo $$ > "$0.pid.new" && mv "$0.pid.new" "$0.pid"
exec sleep 1000
"#;

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..LOOKS {
        if let Some(seen) = look() {
            return seen;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("it never happened that {what}");
}

fn run_with(gateway: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_semel-torture"))
        .args(["run", "--store", "embedded", "--seed", "1", "--seconds", "1", "--semel"])
        .arg(gateway)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a run")
}

/// The story: signals were ignored during the start of a gateway, which may take half a minute, and during its stop.
#[test]
fn a_run_stops_while_a_gateway_starts() {
    let directory = tempfile::tempdir().expect("a directory");
    let gateway = directory.path().join("gateway");
    fs::write(&gateway, SLOW_GATEWAY).expect("written");
    fs::set_permissions(&gateway, fs::Permissions::from_mode(0o755)).expect("executable");
    let run = run_with(&gateway);
    let pid = wait_for("the gateway is started", || {
        fs::read_to_string(directory.path().join("gateway.pid")).ok()
    });
    kill_process(Pid::from_child(&run), Signal::INT).expect("sent");
    let ended = run.wait_with_output().expect("its end");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("stopped by a signal"), "{said}");
    let process = Path::new("/proc").join(pid.trim());
    wait_for("the gateway is gone", || (!process.exists()).then_some(()));
}
