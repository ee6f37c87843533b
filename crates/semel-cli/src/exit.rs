//! How the program ends: 0 fine, 1 failed, 2 wrong usage or configuration.
//!
//! Wrong arguments end with 2 as well, in `clap`.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::process::ExitCode;

/// Why a command did not do what it was asked for.
pub(crate) enum Failure {
    /// Wrong usage or configuration: nothing was touched.
    Wrong(String),
    /// It was tried, and failed.
    Failed(anyhow::Error),
    /// It failed, and the log says why.
    Told,
}

// === impl Failure ===

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

/// Tells what went wrong.
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
        Err(Failure::Told) => ExitCode::from(1),
    }
}

/// A line to standard error.
pub(crate) fn say(line: impl Display) {
    // In one piece, so that lines of the log do not fall into it. If nobody can hear it, so be it.
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Text to standard output. Whoever reads it may stop reading: `semel check | head` is fine.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Failed(
            anyhow::Error::new(error).context("cannot write to standard output"),
        )),
        _ => Ok(()),
    }
}
