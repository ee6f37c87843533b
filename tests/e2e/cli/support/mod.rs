//! Starting the program, and talking to it.

mod eventually;
mod gateway;
mod http;
mod running;
mod upstream;

pub(crate) use eventually::eventually;
pub(crate) use gateway::Gateway;
pub(crate) use http::{Response, get, post};
pub(crate) use running::{Running, TIMEOUT};
pub(crate) use upstream::Upstream;

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The program, in a directory of its own and without the settings of the environment.
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
