//! Starting the program, and talking to it.

mod gateway;
mod http;
mod running;
mod upstream;

pub(crate) use gateway::Gateway;
pub(crate) use http::{Response, get, post};
pub(crate) use running::{Running, TIMEOUT};
pub(crate) use upstream::Upstream;

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

/// The program, in a directory of its own and without anybody's settings.
pub(crate) fn semel(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_semel"));
    command.args(arguments).current_dir(directory).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SEMEL_") {
            command.env_remove(name);
        }
    }
    command
}

/// Runs the program to its end, somewhere.
pub(crate) fn run(arguments: &[&str]) -> Output {
    let directory = tempfile::tempdir().expect("a directory");
    semel(directory.path(), arguments).output().expect("the program runs")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// Waits until there is something.
pub(crate) fn eventually<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let pause = Duration::from_millis(10);
    for _ in 0..TIMEOUT.as_millis() / pause.as_millis() {
        if let Some(found) = attempt() {
            return found;
        }
        thread::sleep(pause);
    }
    panic!("waited in vain: {what}");
}
