//! The real binary.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStderr, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use rustix::process::{Pid, Signal, kill_process};

use super::{Answer, Call, Metrics, Setup, eventually, semel};

/// A gateway that runs. Killed when dropped.
pub(crate) struct Gateway {
    child: Child,
    setup: Setup,
    listen: SocketAddr,
    admin: SocketAddr,
    said: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

// === impl Gateway ===

impl Gateway {
    pub(super) fn start(setup: Setup) -> Self {
        let gateway = Self::start_unready(setup);
        eventually("the gateway is ready", || (gateway.ask("/ready").status == 200).then_some(()));
        gateway
    }

    /// It listens, and that is all that is known.
    pub(super) fn start_unready(setup: Setup) -> Self {
        let mut command =
            semel(&["gateway", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--config"]);
        command.arg(setup.file());
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary");
        let said = Arc::<Mutex<Vec<String>>>::default();
        let reader = read_lines(child.stderr.take().expect("its stderr"), said.clone());
        let addresses = eventually("the gateway says where it listens", || {
            let ended = child.try_wait().expect("its status");
            assert!(ended.is_none(), "it ended with {ended:?}:\n{}", text(&said));
            addresses(&text(&said))
        });
        let (listen, admin) = addresses;
        Self { child, setup, listen, admin, said, reader: Some(reader) }
    }

    pub(crate) const fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// GET on the admin address.
    pub(crate) fn ask(&self, path: &str) -> Answer {
        Call::new("GET", path).send_to(self.admin)
    }

    pub(crate) const fn admin(&self) -> SocketAddr {
        self.admin
    }

    pub(crate) fn metrics(&self) -> Metrics {
        Metrics::parse(&self.ask("/metrics").text())
    }

    /// All that it wrote to its log so far.
    pub(crate) fn log(&self) -> String {
        text(&self.said)
    }

    pub(crate) const fn setup(&self) -> &Setup {
        &self.setup
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// `kill -9`. The setup is for starting it again on the same store.
    pub(crate) fn kill(mut self) -> Setup {
        self.child.kill().expect("a process");
        self.child.wait().expect("its end");
        self.setup.clone()
    }

    /// SIGTERM, SIGHUP, …
    pub(crate) fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(id.expect("an id"), signal).expect("a process");
    }

    /// Waits for its end; how it ended, and all that it wrote to its log.
    pub(crate) fn ended(mut self) -> (ExitStatus, String) {
        let status = eventually("the gateway ends", || self.child.try_wait().expect("its status"));
        if let Some(reader) = self.reader.take() {
            reader.join().expect("its log");
        }
        (status, text(&self.said))
    }

    /// SIGTERM, and its end.
    pub(crate) fn terminate(self) -> (ExitStatus, String) {
        self.signal(Signal::TERM);
        self.ended()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- the gateway's log:\n{}", text(&self.said));
        }
    }
}

fn read_lines(stderr: ChildStderr, said: Arc<Mutex<Vec<String>>>) -> JoinHandle<()> {
    thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            said.lock().expect("lines").push(line);
        }
    })
}

fn text(said: &Mutex<Vec<String>>) -> String {
    said.lock().expect("lines").join("\n")
}

/// Both addresses out of `semel gateway listening on http://A (admin http://B)`.
fn addresses(said: &str) -> Option<(SocketAddr, SocketAddr)> {
    let (_, rest) = said.split_once("semel gateway listening on http://")?;
    let (listen, rest) = rest.split_once(" (admin http://")?;
    let (admin, _) = rest.split_once(')')?;
    Some((listen.parse().ok()?, admin.parse().ok()?))
}
