//! Stopping, killing and freezing the server.

use rustix::process::Signal;

use super::Postgres;
use crate::Error;
use crate::process::STOP_LIMIT;

// === impl Postgres ===

impl Postgres {
    /// Stops the server as an operator would: transactions are rolled back, and all is written.
    pub fn stop_fast(&self) -> Result<(), Error> {
        self.process.stop(Signal::INT, STOP_LIMIT)
    }

    /// Stops the server without writing anything: the next start has to recover.
    pub fn stop_immediately(&self) -> Result<(), Error> {
        self.process.stop(Signal::QUIT, STOP_LIMIT)
    }

    /// Kills all processes of the server (kill -9), and waits until they are gone.
    ///
    /// What they leave behind, such as a lock and shared memory, is left there.
    pub fn kill(&self) -> Result<(), Error> {
        self.process.kill()
    }

    /// Freezes all processes of the server: connections stay open, and nothing is answered.
    pub fn pause(&self) -> Result<(), Error> {
        self.process.pause()
    }

    /// Lets the server go on.
    pub fn resume(&self) -> Result<(), Error> {
        self.process.resume()
    }

    /// Freezes one process; `pg_backend_pid()` returns the id of the one that serves a connection.
    pub fn pause_process(&self, pid: i32) -> Result<(), Error> {
        self.process.pause_one(pid)
    }

    /// Lets one process go on.
    pub fn resume_process(&self, pid: i32) -> Result<(), Error> {
        self.process.send_to(pid, Signal::CONT)
    }

    /// All processes of the server, now.
    pub fn processes(&self) -> Vec<i32> {
        self.process.all()
    }
}
