//! The processes of one server: started, stopped, killed and frozen.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::Signal;

use crate::Error;
use crate::mark::{Mark, is_stopped, send};
use crate::supervisor;
use crate::waiting::wait_for;

pub(crate) const STOP_LIMIT: Duration = Duration::from_mins(1);
/// Recovery after a crash is a part of it.
const START_LIMIT: Duration = Duration::from_mins(2);
/// How long a server that is no longer needed may take to end.
const END_LIMIT: Duration = Duration::from_secs(10);
const PORT_LIMIT: Duration = Duration::from_mins(1);
pub(crate) const PORT_TRIES: usize = 10;
const LOG_LINES_MAX: usize = 30;

/// A server's first process, and all that have its mark.
#[derive(Debug)]
pub(crate) struct Process {
    first: Mutex<Option<Child>>,
    mark: Mark,
}

// === impl Process ===

impl Process {
    pub(crate) fn new(mark: Mark) -> Self {
        Self { first: Mutex::default(), mark }
    }

    pub(crate) fn mark(&self) -> &Mark {
        &self.mark
    }

    /// All of them, now.
    pub(crate) fn all(&self) -> Vec<i32> {
        self.mark.processes()
    }

    /// Starts the command, and waits until it is ready. Its output goes to `log`.
    pub(crate) fn launch(
        &self,
        log: &Path,
        command: impl FnOnce() -> Command,
        mut is_ready: impl FnMut(u32) -> bool,
    ) -> Result<(), Error> {
        let mut first = self.first();
        if running(&mut first).is_ok() {
            return Err(Error::Up);
        }
        // If the first process alone was killed, the others take a moment to notice.
        let _ = wait_for(STOP_LIMIT, || self.all().is_empty().then_some(()));
        let file =
            OpenOptions::new().create(true).append(true).open(log).map_err(Error::at(log))?;
        let before = file.metadata().map_err(Error::at(log))?.len();
        let mut command = command();
        let copy = file.try_clone().map_err(Error::at(log))?;
        command.stdin(Stdio::null()).stdout(copy).stderr(file);
        let child = first.insert(supervisor::spawn(command)?);
        let result = wait_until_ready(child, &mut is_ready);
        drop(first);
        result.map_err(|why| {
            self.end(Signal::QUIT);
            Error::NotStarted { why, log: last_lines(log, before) }
        })
    }

    /// Has it stop by itself.
    pub(crate) fn stop(&self, signal: Signal, limit: Duration) -> Result<(), Error> {
        let mut first = self.first();
        let pid = running(&mut first)?.id();
        send(i32::try_from(pid).unwrap_or_default(), signal);
        // Frozen processes handle the signal when they resume.
        self.mark.signal(Signal::CONT);
        let gone = wait_for(limit, || self.is_gone(&mut first).then_some(()));
        gone.ok_or_else(|| timed_out("stopping the server", limit))
    }

    /// Kills all of them (kill -9), and waits until they are gone.
    pub(crate) fn kill(&self) -> Result<(), Error> {
        let mut first = self.first();
        // The first first: then no new ones come.
        running(&mut first)?.kill().map_err(Error::at(Path::new("the server")))?;
        self.kill_all(&mut first)
    }

    /// Freezes all of them: connections stay open, and nothing is answered.
    pub(crate) fn pause(&self) -> Result<(), Error> {
        let mut first = self.first();
        running(&mut first)?;
        // Until all were found frozen, one of them may have started another.
        let frozen = wait_for(STOP_LIMIT, || {
            self.mark.signal(Signal::STOP);
            self.all().into_iter().all(is_stopped).then_some(())
        });
        frozen.ok_or_else(|| timed_out("freezing the server", STOP_LIMIT))
    }

    /// Lets them go on.
    pub(crate) fn resume(&self) -> Result<(), Error> {
        running(&mut self.first())?;
        self.mark.signal(Signal::CONT);
        Ok(())
    }

    /// Freezes one of them.
    pub(crate) fn pause_one(&self, pid: i32) -> Result<(), Error> {
        self.send_to(pid, Signal::STOP)?;
        let frozen = wait_for(STOP_LIMIT, || is_stopped(pid).then_some(()));
        frozen.ok_or_else(|| timed_out("freezing a process", STOP_LIMIT))
    }

    /// Sends `signal` to one of them.
    pub(crate) fn send_to(&self, pid: i32, signal: Signal) -> Result<(), Error> {
        if !self.mark.is_on(pid) {
            return Err(Error::NotOurs { pid });
        }
        send(pid, signal);
        Ok(())
    }

    /// Ends them, whatever their state is.
    pub(crate) fn end(&self, signal: Signal) {
        if self.stop(signal, END_LIMIT).is_err() {
            // If even this takes too long, there is nothing left to try.
            let _ = self.kill_all(&mut self.first());
        }
    }

    fn kill_all(&self, first: &mut Option<Child>) -> Result<(), Error> {
        let gone = wait_for(STOP_LIMIT, || {
            self.mark.signal(Signal::KILL);
            self.is_gone(first).then_some(())
        });
        gone.ok_or_else(|| timed_out("killing the server", STOP_LIMIT))
    }

    fn is_gone(&self, first: &mut Option<Child>) -> bool {
        running(first).is_err() && self.all().is_empty()
    }

    fn first(&self) -> MutexGuard<'_, Option<Child>> {
        // A test that panicked meanwhile is no reason not to clear up.
        self.first.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts on a port out of `ports`, and on the next if another process was quicker.
pub(crate) fn on_a_spare_port(
    mut ports: impl FnMut() -> Result<u16, Error>,
    mut launch: impl FnMut(u16) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut tries = 0;
    loop {
        tries += 1;
        let result = launch(ports()?);
        if tries == PORT_TRIES || !is_port_taken(&result) {
            return result;
        }
    }
}

/// Starts on the same port again. An outgoing connection may have been given it meanwhile.
pub(crate) fn on_its_port(mut launch: impl FnMut() -> Result<(), Error>) -> Result<(), Error> {
    let mut result = Ok(());
    let _ = wait_for(PORT_LIMIT, || {
        result = launch();
        (!is_port_taken(&result)).then_some(())
    });
    result
}

fn is_port_taken(result: &Result<(), Error>) -> bool {
    matches!(result, Err(Error::NotStarted { log, .. }) if log.contains("Address already in use"))
}

fn wait_until_ready(
    child: &mut Child,
    is_ready: &mut impl FnMut(u32) -> bool,
) -> Result<(), String> {
    let seen = wait_for(START_LIMIT, || match child.try_wait() {
        Ok(None) => is_ready(child.id()).then_some(Ok(())),
        Ok(Some(status)) => Some(Err(status.to_string())),
        Err(error) => Some(Err(error.to_string())),
    });
    seen.unwrap_or_else(|| Err(format!("not ready within {START_LIMIT:?}")))
}

/// The first process, if it runs. One that has ended is reaped.
fn running(first: &mut Option<Child>) -> Result<&mut Child, Error> {
    let child = first.as_mut().ok_or(Error::Down)?;
    match child.try_wait() {
        Ok(None) => Ok(child),
        _ => Err(Error::Down),
    }
}

fn timed_out(what: &str, limit: Duration) -> Error {
    Error::TimedOut { what: what.to_owned(), limit }
}

/// The last lines of a log that were written after its first `before` bytes.
fn last_lines(path: &Path, before: u64) -> String {
    let log = fs::read(path).unwrap_or_default();
    let new = log.get(usize::try_from(before).unwrap_or_default()..).unwrap_or_default();
    let text = String::from_utf8_lossy(new);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES_MAX)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_of_the_new_part_of_a_log_is_shown() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let lines: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        fs::write(file.path(), format!("old\n{}\n", lines.join("\n"))).expect("written");
        assert_eq!(last_lines(file.path(), 4), lines[100 - LOG_LINES_MAX..].join("\n"));
        fs::write(file.path(), "old\nnew\n").expect("written");
        assert_eq!(last_lines(file.path(), 4), "new");
        assert_eq!(last_lines(Path::new("/nowhere"), 4), "");
    }
}
