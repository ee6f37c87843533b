//! The gateway as a process.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitStatus;
use std::thread;

use rustix::process::Signal;

use crate::{Answer, Call, Metrics, Process, Setup, eventually};

/// A gateway that listens. Killed when dropped.
#[derive(Debug)]
pub struct Gateway {
    /// Its process.
    pub process: Process,
    setup: Setup,
    addresses: Addresses,
}

/// Where a gateway listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// For clients.
    pub listen: SocketAddr,
    /// True if clients must speak TLS.
    pub is_tls: bool,
    /// For operators.
    pub admin: SocketAddr,
}

// === impl Gateway ===

impl Gateway {
    pub(crate) fn start(setup: Setup) -> Self {
        let mut process = Process::start(setup.command().args(["--admin", "127.0.0.1:0"]));
        let line = process.err.wait_for(LISTENS);
        let addresses = Addresses::find(&line).expect("two addresses");
        Self { process, setup, addresses }
    }

    /// Waits until it is ready.
    pub fn wait_until_ready(&self) {
        eventually("the gateway is ready", || (self.ask("/ready").status == 200).then_some(()));
    }

    /// The address for clients.
    pub const fn listen(&self) -> SocketAddr {
        self.addresses.listen
    }

    /// The admin address.
    pub const fn admin(&self) -> SocketAddr {
        self.addresses.admin
    }

    /// True if clients must speak TLS.
    pub const fn is_tls(&self) -> bool {
        self.addresses.is_tls
    }

    /// GET on the admin address.
    pub fn ask(&self, path: &str) -> Answer {
        Call::new("GET", path).send_to(self.admin())
    }

    /// Its metrics.
    pub fn metrics(&self) -> Metrics {
        Metrics::parse(&self.ask("/metrics").text())
    }

    /// All that it wrote to its log so far.
    pub fn log(&self) -> String {
        self.process.err.so_far()
    }

    /// How it was started, to start it again.
    pub const fn setup(&self) -> &Setup {
        &self.setup
    }

    /// The directory that it works in.
    pub fn directory(&self) -> &Path {
        self.setup.directory()
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// SIGTERM, SIGHUP and others.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// `kill -9`. The setup is for starting it again on the same store.
    pub fn kill(mut self) -> Setup {
        self.process.kill();
        self.setup.clone()
    }

    /// Waits for its end; how it ended, and all that it wrote to its log.
    pub fn ended(mut self) -> (ExitStatus, String) {
        (self.process.ended(), self.process.err.all())
    }

    /// SIGTERM, and its end.
    pub fn terminate(self) -> (ExitStatus, String) {
        self.signal(Signal::TERM);
        self.ended()
    }

    /// A line of its status: `VmRSS` is the memory that it has, `VmHWM` the most that it has had.
    pub fn memory_kib(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id())).expect("its status");
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a line");
        let kib = line.trim_start_matches(':').trim().trim_end_matches(" kB");
        kib.parse().expect("a number")
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if thread::panicking() {
            self.process.kill();
            eprintln!("--- the gateway's log:\n{}", self.log());
        }
    }
}

// === impl Addresses ===

const LISTENS: &str = "semel gateway listening on ";

impl Addresses {
    /// Out of `semel gateway listening on http://A (admin http://B)`, which is somewhere in a log.
    pub fn find(log: &str) -> Option<Self> {
        let (_, rest) = log.split_once(LISTENS)?;
        let (listen, rest) = rest.split_once(" (admin http://")?;
        let (scheme, listen) = listen.split_once("://")?;
        let (admin, _) = rest.split_once(')')?;
        let (listen, admin) = (listen.parse().ok()?, admin.parse().ok()?);
        Some(Self { listen, is_tls: scheme == "https", admin })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_once_their_line_is_whole() {
        let log = "starting\nsemel gateway listening on https://127.0.0.1:1 (admin http://[::1]:2)";
        let (listen, admin) = ("127.0.0.1:1".parse(), "[::1]:2".parse());
        let (listen, admin) = (listen.expect("an address"), admin.expect("an address"));
        assert_eq!(Addresses::find(log), Some(Addresses { listen, is_tls: true, admin }));
        assert_eq!(Addresses::find(&log[..log.len() - 1]), None);
    }
}
