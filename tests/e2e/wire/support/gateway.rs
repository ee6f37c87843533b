//! The gateway as its users start it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};
use tempfile::TempDir;

use super::{Client, LIMIT, Upstream, eventually};

const SEMEL: &str = env!("CARGO_BIN_EXE_semel");

/// A gateway that serves. Dropped, it is killed.
pub(crate) struct Gateway {
    child: Child,
    pub(crate) address: SocketAddr,
    admin: SocketAddr,
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
        let text = format!("store = \"memory:\"\n{tables}");
        Self::run(Command::new(SEMEL), directory, upstream, &text)
    }

    /// With a store on disk. It may have so many file descriptors, if a number is given.
    pub(crate) fn start_embedded(
        upstream: &Upstream,
        descriptors: Option<usize>,
        tables: &str,
    ) -> Self {
        let command = match descriptors {
            None => Command::new(SEMEL),
            Some(max) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", &format!("ulimit -n {max}; exec \"$0\" \"$@\""), SEMEL]);
                shell
            }
        };
        let text = format!("store = \"embedded:store\"\ndurability = \"process\"\n{tables}");
        Self::run(command, tempfile::tempdir().unwrap(), &upstream.url(), &text)
    }

    fn run(mut command: Command, directory: TempDir, upstream: &str, text: &str) -> Self {
        let file = directory.path().join("semel.toml");
        fs::write(&file, format!("upstream = \"{upstream}\"\nlog = \"warn\"\n{text}")).unwrap();
        let mut child = command
            .args(["gateway", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--config"])
            .arg(&file)
            .current_dir(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                // The receiver is gone once it has started.
                let _ = sender.send(line);
            }
        });
        let mut said = Vec::new();
        let (is_tls, address, admin) = loop {
            let Ok(line) = lines.recv_timeout(LIMIT) else {
                let _ = child.kill();
                panic!("it did not start: {said:?}");
            };
            if let Some(found) = address(&line) {
                break found;
            }
            said.push(line);
        };
        Self { child, address, admin, is_tls, directory }
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// Waits until it has no more than `max` connections of clients.
    pub(crate) fn wait_for_connections(&self, max: usize) {
        let mut admin = Client::connect(self.admin);
        eventually(&format!("at most {max} connections"), || {
            let metrics = admin.ask(super::get("/metrics")).text();
            let value = |line: &str| line.strip_prefix("semel_connections ")?.parse().ok();
            let connections: usize = metrics.lines().find_map(value).unwrap();
            (connections <= max).then_some(())
        });
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

    /// Changes its file and sends SIGHUP.
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

    /// Lets it have so many file descriptors from now on; what is open stays open.
    pub(crate) fn let_have_descriptors(&self, max: u64) {
        let before = getrlimit(Resource::Nofile);
        let limit = Rlimit { current: Some(max), maximum: before.maximum };
        prlimit(Some(self.pid()), Resource::Nofile, limit).unwrap();
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
fn address(line: &str) -> Option<(bool, SocketAddr, SocketAddr)> {
    let rest = line.strip_prefix("semel gateway listening on ")?;
    let (listen, admin) = rest.strip_suffix(')')?.split_once(" (admin http://")?;
    let admin = admin.parse().ok()?;
    let (scheme, listen) = listen.split_once("://")?;
    Some((scheme == "https", listen.parse().ok()?, admin))
}
