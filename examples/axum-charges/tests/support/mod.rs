//! The running example, and a client for it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// How long an answer may take. A loaded machine is slow.
const TIMEOUT: Duration = Duration::from_mins(1);

/// The example on a free port, with a directory of its own.
pub(crate) struct Service {
    pub(crate) address: SocketAddr,
    child: Child,
    directory: TempDir,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

// === impl Service ===

impl Service {
    pub(crate) fn start() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let (child, address) = spawn(&directory);
        Self { address, child, directory }
    }

    /// `kill -9`, and a new process on the same directory.
    pub(crate) fn kill_and_restart(&mut self) {
        self.child.kill().expect("a process to kill");
        self.child.wait().expect("a process to wait for");
        (self.child, self.address) = spawn(&self.directory);
    }

    pub(crate) fn charge(&self, key: &str, body: &str) -> Answer {
        let head = format!("authorization: Bearer alice\r\nidempotency-key: {key}\r\n");
        self.send("POST", &head, body)
    }

    /// All charges, as JSON.
    pub(crate) fn ledger(&self) -> String {
        self.send("GET", "", "").body
    }

    pub(crate) fn send(&self, method: &str, head: &str, body: &str) -> Answer {
        let mut stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a time limit");
        let length = body.len();
        let request = format!(
            "{method} /v1/charges HTTP/1.1\r\nhost: test\r\nconnection: close\r\n{head}\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).expect("sending");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        let (head, body) = text.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let (status, head) = (status.expect("a status"), head.to_lowercase());
        Answer { status, head, body: body.to_owned() }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may be dead already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// === impl Answer ===

impl Answer {
    pub(crate) fn is_replay(&self) -> bool {
        self.header("x-idempotency-replayed") == Some("true")
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.find(|(field, _)| *field == name).map(|(_, value)| value)
    }
}

/// Runs the curl lines of the README against this address; what each of them printed.
pub(crate) fn play_readme(address: SocketAddr) -> Vec<String> {
    let readme = include_str!("../../README.md").replace("\\\n", " ");
    let lines = readme.lines().filter(|line| line.starts_with("curl "));
    lines.map(|line| run(&line.replace("127.0.0.1:3000", &address.to_string()))).collect()
}

fn run(line: &str) -> String {
    let output = Command::new("sh").args(["-c", line]).output().expect("a shell");
    let troubles = String::from_utf8_lossy(&output.stderr);
    let hint = "if curl is missing: apt-get install curl";
    assert!(output.status.success(), "this failed: {line}\n{troubles}\n{hint}");
    String::from_utf8(output.stdout).expect("text")
}

fn spawn(directory: &TempDir) -> (Child, SocketAddr) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_axum-charges"))
        .arg(directory.path().join("semel-data"))
        .arg("127.0.0.1:0")
        .stdout(Stdio::piped())
        .spawn()
        .expect("the example starts");
    let mut said = String::new();
    let stdout = child.stdout.take().expect("standard output");
    BufReader::new(stdout).read_line(&mut said).expect("a line");
    let address = said.trim().strip_prefix("charges listening on http://").expect("an address");
    (child, address.parse().expect("an address"))
}
