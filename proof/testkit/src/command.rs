//! Commands of the program that end by themselves.

use std::process::{Command, Stdio};

/// How a command ended, and what it said.
#[derive(Debug)]
pub struct Ended {
    /// Its exit code, if it was not killed.
    pub code: Option<i32>,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

/// The program, without the settings of the environment.
pub fn semel(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    without_settings(&mut command);
    command
}

/// Takes the settings of gateways and of `PostgreSQL` that this process has from a command.
pub fn without_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let bytes = name.as_encoded_bytes();
        if bytes.starts_with(b"SEMEL_") || bytes.starts_with(b"PG") {
            command.env_remove(name);
        }
    }
}

// === impl Ended ===

impl Ended {
    /// Runs a command to its end.
    pub fn of(command: &mut Command) -> Self {
        let output = command.output().expect("the program runs");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// It ended so, having said one line about it with all of `parts`.
    #[track_caller]
    pub fn assert_failed(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(self.out, "");
        let line = self.err.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
        for part in parts {
            assert!(line.contains(part), "{part} in {self:?}");
        }
    }
}
