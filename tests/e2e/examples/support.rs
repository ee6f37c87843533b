//! Starting what the example consists of, and talking to it.

#[path = "../cli/support/eventually.rs"]
mod eventually;

pub(crate) use eventually::eventually;

use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// How long anything may take. A loaded machine is slow.
const TIMEOUT: Duration = Duration::from_mins(1);
pub(crate) const API: &str = "payments API listening on http://";

/// A process that is dead when the test is over.
pub(crate) struct Running {
    child: Child,
    said: mpsc::Receiver<String>,
}

// === impl Running ===

impl Running {
    fn start(mut command: Command) -> Self {
        without_settings(&mut command);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        let (lines, said) = mpsc::channel();
        forward(child.stdout.take().expect("standard output"), lines.clone());
        forward(child.stderr.take().expect("standard error"), lines);
        Self { child, said }
    }

    /// Waits for a line that starts like this and goes on with an address.
    pub(crate) fn address_after(&mut self, start: &str) -> SocketAddr {
        let mut seen = Vec::new();
        loop {
            let line = self.said.recv_timeout(TIMEOUT).unwrap_or_else(|error| {
                panic!("never said {start:?} ({error}), but:\n{}", seen.join("\n"))
            });
            if let Some(rest) = line.strip_prefix(start) {
                let address = rest.split(' ').next().expect("an address");
                return address.parse().expect("an address");
            }
            seen.push(line);
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a process to signal");
    }

    /// Waits for the end.
    pub(crate) fn end(&mut self) {
        eventually("the end of the process", || self.child.try_wait().expect("a process"));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may be dead already. A script gets the chance to end what it started.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        for _ in 0..200 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn forward(stream: impl Read + Send + 'static, lines: mpsc::Sender<String>) {
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                return;
            }
        }
    });
}

/// Without the settings of the environment.
pub(crate) fn without_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SEMEL_") {
            command.env_remove(name);
        }
    }
}

pub(crate) fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/gateway-any-language")
}

/// The Python server on a free port.
pub(crate) fn api() -> (Running, SocketAddr) {
    needs("python3");
    let mut command = Command::new("python3");
    command.args(["server.py", "0"]).current_dir(directory());
    let mut running = Running::start(command);
    let address = running.address_after(API);
    (running, address)
}

/// The gateway with the example's configuration, on free ports.
pub(crate) fn gateway(api: SocketAddr, records: &Path) -> (Running, SocketAddr) {
    gateway_in(&directory(), api, records)
}

/// The gateway with a configuration in this directory, on free ports.
pub(crate) fn gateway_in(
    directory: &Path,
    api: SocketAddr,
    records: &Path,
) -> (Running, SocketAddr) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_semel"));
    command.args(["gateway", "--config", "semel.toml", "--upstream", &format!("http://{api}")]);
    command.args(flags(records)).current_dir(directory);
    let mut running = Running::start(command);
    let address = running.address_after("semel gateway listening on http://");
    (running, address)
}

/// The script that starts both.
pub(crate) fn run_sh(port: u16, records: &Path) -> Running {
    needs("python3");
    // A background process ignores Ctrl-C, and so would the script.
    let mut command = Command::new("env");
    command.args(["--default-signal=INT", "./run.sh"]);
    command.args(flags(records)).current_dir(directory());
    command.env("SEMEL", env!("CARGO_BIN_EXE_semel")).env("API_PORT", port.to_string());
    Running::start(command)
}

fn flags(records: &Path) -> [String; 6] {
    let store = format!("embedded:{}", records.join("semel-data").display());
    ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", &store].map(str::to_owned)
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// The curl lines of the README, in order.
pub(crate) fn curl_lines() -> Vec<String> {
    let readme = std::fs::read_to_string(directory().join("README.md")).expect("a README");
    lines_of(&readme, "curl ")
}

/// The lines of a page that start so, in order; those that go on in the next are one.
pub(crate) fn lines_of(page: &str, start: &str) -> Vec<String> {
    let page = page.replace("\\\n", " ");
    page.lines().filter(|line| line.starts_with(start)).map(str::to_owned).collect()
}

/// Runs a line as a reader would; what it printed.
pub(crate) fn run(line: &str) -> String {
    run_in(Path::new("."), line)
}

pub(crate) fn run_in(directory: &Path, line: &str) -> String {
    needs("curl");
    let output = Command::new("sh").args(["-c", line]).current_dir(directory).output();
    let output = output.expect("a shell");
    let troubles = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "this failed: {line}\n{troubles}");
    String::from_utf8(output.stdout).expect("text")
}

pub(crate) fn get(to: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(to).expect("a connection");
    stream.set_read_timeout(Some(TIMEOUT)).expect("a time limit");
    let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sending");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

fn needs(program: &str) {
    let found = Command::new(program).arg("--version").output();
    let found = found.is_ok_and(|output| output.status.success());
    assert!(found, "this test needs {program}; install it with: apt-get install {program}");
}
