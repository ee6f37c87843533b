//! The program, as a user starts it.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tempfile::TempDir;

use super::{Answer, Call};

/// One that runs. Killed when dropped, and its log is shown if the test failed.
pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    child: Child,
    /// Its output. It must not block when nothing reads it.
    printed: Option<JoinHandle<String>>,
    directory: TempDir,
}

// === impl Service ===

impl Service {
    /// With this database and more arguments.
    pub(crate) fn start(database: &str, more: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_transfers"));
        Self::run(command.args(["--database", database]).args(more))
    }

    /// In a directory, with a database of its own.
    pub(crate) fn start_alone(directory: &Path) -> Self {
        Self::run(Command::new(env!("CARGO_BIN_EXE_transfers")).current_dir(directory))
    }

    /// On a free port.
    fn run(command: &mut Command) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let log = File::create(directory.path().join("log")).expect("a file");
        command.args(["--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().expect("the program starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("standard output"));
        let mut said = String::new();
        stdout.read_line(&mut said).expect("a line");
        let Some(address) = said.trim().strip_prefix("transfers listening on http://") else {
            panic!("not ready: {}", log_of(directory.path()));
        };
        let address = address.parse().expect("an address");
        let printed = thread::spawn(move || {
            stdout.read_to_string(&mut said).expect("text");
            said
        });
        Self { address, child, printed: Some(printed), directory }
    }

    /// Sends it; it must be answered.
    pub(crate) fn send(&self, call: &Call) -> Answer {
        call.send(self.address).unwrap_or_else(|error| panic!("{error:?}: {call:?}"))
    }

    /// Opens an account in euros.
    pub(crate) fn open(&self, id: &str, deposit: i64) {
        let body = json!({ "id": id, "currency": "EUR", "deposit": deposit });
        let call =
            Call::post("/accounts", body.to_string()).by("teller").key(&format!("open-{id}"));
        let opened = self.send(&call);
        assert_eq!(opened.status, 201, "{opened:?}");
    }

    pub(crate) fn transfer(&self, key: &str, body: &str) -> Answer {
        self.send(&Call::post("/transfers", body).by("alice").key(key))
    }

    pub(crate) fn balance(&self, id: &str) -> i64 {
        let account = self.send(&Call::get(format!("/accounts/{id}")));
        account.json()["balance"].as_i64().unwrap_or_else(|| panic!("{account:?}"))
    }

    /// SIGSTOP, SIGCONT, SIGTERM, …
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a process");
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("a process");
        self.child.wait().expect("its end");
    }

    /// SIGTERM; how it ended, and all that it printed.
    pub(crate) fn terminate(mut self) -> (ExitStatus, String) {
        self.signal(Signal::TERM);
        let status = self.child.wait().expect("its end");
        let printed = self.printed.take().expect("once");
        (status, printed.join().expect("text"))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- the service's log:\n{}", log_of(self.directory.path()));
        }
    }
}

/// The end of its log.
fn log_of(directory: &Path) -> String {
    let log = fs::read_to_string(directory.join("log")).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
