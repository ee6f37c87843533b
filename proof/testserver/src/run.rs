//! Running a program to its end.

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use crate::Error;
use crate::supervisor;
use crate::waiting::wait_for;

/// Runs `command` with `input`, and gives what it printed. Killed if it is not done within `limit`.
///
/// Input and output are files, not pipes: the program does not depend on a reader.
pub(crate) fn run(
    what: &str,
    mut command: Command,
    input: &str,
    limit: Duration,
) -> Result<String, Error> {
    let (stdout, stderr) = (scratch("")?, scratch("")?);
    command.stdin(scratch(input)?).stdout(copy(&stdout)?).stderr(copy(&stderr)?);
    let mut child = supervisor::spawn(command)?;
    let ended = wait_for(limit, || child.try_wait().transpose());
    let Some(status) = ended else {
        end(&mut child);
        return Err(Error::TimedOut { what: what.to_owned(), limit });
    };
    if status.map_err(Error::at(Path::new(what)))?.success() {
        text(stdout)
    } else {
        let output = text(stderr)? + &text(stdout)?;
        Err(Error::Failed { what: what.to_owned(), output: output.trim().to_owned() })
    }
}

/// Kills a process and waits until it is gone.
pub(crate) fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn scratch(content: &str) -> Result<File, Error> {
    let fill = || {
        let mut file = tempfile::tempfile()?;
        file.write_all(content.as_bytes())?;
        file.rewind()?;
        Ok(file)
    };
    fill().map_err(Error::at(&std::env::temp_dir()))
}

fn copy(file: &File) -> Result<File, Error> {
    file.try_clone().map_err(Error::at(&std::env::temp_dir()))
}

fn text(mut file: File) -> Result<String, Error> {
    let mut bytes = Vec::new();
    file.rewind()
        .and_then(|()| file.read_to_end(&mut bytes))
        .map_err(Error::at(&std::env::temp_dir()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_mins(1);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_program_gets_its_input_and_gives_its_output() {
        let large = "line\n".repeat(100_000);
        assert_eq!(run("cat", shell("cat"), &large, LIMIT).expect("output"), large);
    }

    #[test]
    fn a_program_that_fails_is_quoted() {
        let error = run("it", shell("echo no luck >&2; exit 3"), "", LIMIT).expect_err("failure");
        assert_eq!(error.to_string(), "it failed: no luck");
    }

    #[test]
    fn a_program_that_takes_too_long_is_ended() {
        let error = run("it", shell("exec sleep 1000"), "", Duration::ZERO).expect_err("a limit");
        assert_eq!(error.to_string(), "it took longer than 0ns");
    }

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        let mut command = Command::new("setpriv");
        command.env("PATH", "/nowhere");
        let error = run("it", command, "", LIMIT).expect_err("nothing there");
        assert!(error.to_string().contains("sudo apt-get install util-linux"), "{error}");
    }
}
