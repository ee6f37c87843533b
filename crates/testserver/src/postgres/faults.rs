//! Stopping, killing and freezing the server.

use std::process::Child;
use std::time::Duration;

use rustix::process::Signal;

use super::Postgres;
use crate::Error;
use crate::mark::{is_stopped, send};
use crate::patience::wait_for;

pub(super) const STOP_LIMIT: Duration = Duration::from_mins(1);
/// How long a server may take to end that nobody needs any more.
const END_LIMIT: Duration = Duration::from_secs(10);

// === impl Postgres ===

impl Postgres {
    /// Stops the server as an operator would: transactions are rolled back, and all is written.
    pub fn stop_fast(&self) -> Result<(), Error> {
        self.stop(Signal::INT, STOP_LIMIT)
    }

    /// Stops the server without writing anything: the next start has to recover.
    pub fn stop_immediately(&self) -> Result<(), Error> {
        self.stop(Signal::QUIT, STOP_LIMIT)
    }

    /// Kills all processes of the server (kill -9), and waits until they are gone.
    ///
    /// What they leave behind, such as a lock and shared memory, is left there.
    pub fn kill(&self) -> Result<(), Error> {
        let mut server = self.server();
        // The postmaster first: then no new ones come.
        running(&mut server)?.kill().map_err(Error::at(self.directory()))?;
        self.kill_all(&mut server)
    }

    /// Freezes all processes of the server: connections stay open, and nobody answers.
    pub fn pause(&self) -> Result<(), Error> {
        let mut server = self.server();
        running(&mut server)?;
        // Until all were found frozen, one of them may have started another.
        let frozen = wait_for(STOP_LIMIT, || {
            self.mark.signal(Signal::STOP);
            self.processes().into_iter().all(is_stopped).then_some(())
        });
        frozen.ok_or_else(|| timed_out("freezing the server", STOP_LIMIT))
    }

    /// Lets the server go on.
    pub fn resume(&self) -> Result<(), Error> {
        running(&mut self.server())?;
        self.mark.signal(Signal::CONT);
        Ok(())
    }

    /// Freezes one process: the one that serves a connection says its id with `pg_backend_pid()`.
    pub fn pause_process(&self, pid: i32) -> Result<(), Error> {
        self.send_to(pid, Signal::STOP)?;
        let frozen = wait_for(STOP_LIMIT, || is_stopped(pid).then_some(()));
        frozen.ok_or_else(|| timed_out("freezing a process", STOP_LIMIT))
    }

    /// Lets one process go on.
    pub fn resume_process(&self, pid: i32) -> Result<(), Error> {
        self.send_to(pid, Signal::CONT)
    }

    /// All processes of the server, now.
    pub fn processes(&self) -> Vec<i32> {
        self.mark.processes()
    }

    /// Ends the server, whatever state it is in.
    pub(super) fn end(&self) {
        if self.stop(Signal::QUIT, END_LIMIT).is_err() {
            // If even this takes too long, there is nothing left to try.
            let _ = self.kill_all(&mut self.server());
        }
    }

    fn stop(&self, signal: Signal, limit: Duration) -> Result<(), Error> {
        let mut server = self.server();
        let postmaster = running(&mut server)?.id();
        send(i32::try_from(postmaster).unwrap_or_default(), signal);
        // Those that are frozen hear of it when they go on.
        self.mark.signal(Signal::CONT);
        let gone = wait_for(limit, || self.is_gone(&mut server).then_some(()));
        gone.ok_or_else(|| timed_out("stopping the server", limit))
    }

    fn kill_all(&self, server: &mut Option<Child>) -> Result<(), Error> {
        let gone = wait_for(STOP_LIMIT, || {
            self.mark.signal(Signal::KILL);
            self.is_gone(server).then_some(())
        });
        gone.ok_or_else(|| timed_out("killing the server", STOP_LIMIT))
    }

    fn is_gone(&self, server: &mut Option<Child>) -> bool {
        running(server).is_err() && self.processes().is_empty()
    }

    fn send_to(&self, pid: i32, signal: Signal) -> Result<(), Error> {
        if !self.mark.is_on(pid) {
            return Err(Error::NotOurs { pid });
        }
        send(pid, signal);
        Ok(())
    }
}

/// The postmaster, if it runs. One that has ended is reaped.
pub(super) fn running(server: &mut Option<Child>) -> Result<&mut Child, Error> {
    let child = server.as_mut().ok_or(Error::Down)?;
    match child.try_wait() {
        Ok(None) => Ok(child),
        _ => Err(Error::Down),
    }
}

fn timed_out(what: &str, limit: Duration) -> Error {
    Error::TimedOut { what: what.to_owned(), limit }
}
