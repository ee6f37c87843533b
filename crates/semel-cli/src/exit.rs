//! How the program ends: 0 fine, 1 failed, 2 wrong usage or configuration.
//!
//! Wrong arguments end with 2 as well, in `clap`.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::process::ExitCode;

/// Why a command failed.
pub(crate) enum Failure {
    /// Wrong usage or configuration: nothing was touched.
    Wrong(String),
    /// It was tried, and failed.
    Failed(anyhow::Error),
    /// It failed, and the log has the reason.
    Reported,
}

// === impl Failure ===

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

/// Prints the failure and returns the exit code.
pub(crate) fn code(outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Wrong(what)) => {
            say(what);
            ExitCode::from(2)
        }
        Err(Failure::Failed(error)) => {
            say(format!("error: {error:#}"));
            ExitCode::from(1)
        }
        Err(Failure::Reported) => ExitCode::from(1),
    }
}

/// A line to standard error.
pub(crate) fn say(line: impl Display) {
    // In one write, so that log lines do not fall into it. A closed standard error is ignored.
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Text to standard output. A closed pipe is no error: `semel check | head` is fine.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Failed(
            anyhow::Error::new(error).context("cannot write to standard output"),
        )),
        _ => Ok(()),
    }
}
