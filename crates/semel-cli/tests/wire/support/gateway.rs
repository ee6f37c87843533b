//! The gateway as its users start it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::{Client, LIMIT, Upstream, eventually};

/// A gateway that serves. Dropped, it is killed.
pub(crate) struct Gateway {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) is_tls: bool,
    directory: TempDir,
}

// === impl Gateway ===

impl Gateway {
    /// In front of `upstream`, with these tables in its file.
    pub(crate) fn start(upstream: &Upstream, tables: &str) -> Self {
        Self::start_at(&upstream.url(), tables)
    }

    /// The same with lines before the tables.
    pub(crate) fn start_top(upstream: &Upstream, top: &str, tables: &str) -> Self {
        Self::start_at(&upstream.url(), &format!("{top}{tables}"))
    }

    pub(crate) fn start_at(upstream: &str, tables: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self::start_in(directory, upstream, tables)
    }

    /// The same with files of the caller beside the configuration.
    pub(crate) fn start_in(directory: TempDir, upstream: &str, tables: &str) -> Self {
        let file = directory.path().join("semel.toml");
        let text =
            format!("upstream = \"{upstream}\"\nstore = \"memory:\"\nlog = \"warn\"\n{tables}");
        fs::write(&file, text).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_semel"))
            .args(["gateway", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--config"])
            .arg(&file)
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                // Nobody listens once it has started.
                let _ = tell.send(line);
            }
        });
        let mut said = Vec::new();
        let (is_tls, address) = loop {
            let Ok(line) = told.recv_timeout(LIMIT) else {
                let _ = child.kill();
                panic!("it did not start: {said:?}");
            };
            if let Some(found) = address(&line) {
                break found;
            }
            said.push(line);
        };
        Self { child, address, is_tls, directory }
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// One request on a connection of its own.
    pub(crate) fn ask(&self, bytes: impl AsRef<[u8]>) -> super::Reply {
        self.connect().ask(bytes)
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Changes its file and tells it so.
    pub(crate) fn reload(&self, change: impl FnOnce(String) -> String) {
        let file = self.directory().join("semel.toml");
        fs::write(&file, change(fs::read_to_string(&file).unwrap())).unwrap();
        self.signal(Signal::HUP);
    }

    /// Waits for its end.
    pub(crate) fn ended(mut self) -> ExitStatus {
        eventually("the gateway ends", || self.child.try_wait().unwrap())
    }

    /// Ends it at once, and waits for that.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Resident memory, in KiB.
    pub(crate) fn resident_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Open files, sockets among them.
    pub(crate) fn open_files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// Waits until no more than `max` files are open.
    pub(crate) fn wait_for_open_files(&self, max: usize) {
        eventually(&format!("at most {max} open files"), || {
            (self.open_files() <= max).then_some(())
        });
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // Killed before, it is only waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `semel gateway listening on http://ADDR (admin http://ADDR)`
fn address(line: &str) -> Option<(bool, SocketAddr)> {
    let rest = line.strip_prefix("semel gateway listening on ")?;
    let (listen, admin) = rest.strip_suffix(')')?.split_once(" (admin http://")?;
    let _: SocketAddr = admin.parse().ok()?;
    let (scheme, listen) = listen.split_once("://")?;
    Some((scheme == "https", listen.parse().ok()?))
}
