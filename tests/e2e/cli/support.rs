//! Starting the program, and talking to it.

use std::path::Path;
use std::process::Command;

use semel_testkit::Setup;
pub(crate) use semel_testkit::{
    Answer, Call, Ended, Gate, Gateway, Process, Reply, Upstream, eventually,
};

const SEMEL: &str = env!("CARGO_BIN_EXE_semel");

/// The program in a directory.
pub(crate) fn semel(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = semel_testkit::semel(SEMEL, arguments);
    command.current_dir(directory);
    command
}

/// Runs the program to its end, somewhere.
pub(crate) fn run(arguments: &[&str]) -> Ended {
    let directory = tempfile::tempdir().expect("a directory");
    Ended::of(&mut semel(directory.path(), arguments))
}

/// A gateway that is configured by flags, in front of an upstream.
pub(crate) fn before(upstream: &Upstream) -> Setup {
    Setup::new(SEMEL).arguments(&["--upstream", &upstream.url()])
}

/// A gateway that is held up by an upstream that answers when the gate opens.
pub(crate) fn held() -> (Gate, Upstream) {
    Upstream::gated(|_| Reply::created("{}"))
}

/// A request with a key, or without.
pub(crate) fn post(path: &str, key: Option<&str>) -> Call {
    let call = Call::new("POST", path).json("{}");
    match key {
        Some(key) => call.key(key),
        None => call,
    }
}

/// What `/ready` says, if it still says something.
pub(crate) fn ready(gateway: &Gateway) -> Option<u16> {
    Call::new("GET", "/ready").try_send(gateway.admin()).ok().map(|answer| answer.status)
}
