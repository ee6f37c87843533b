//! Starting what the example consists of, and talking to it.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) use semel_testkit::{Call, Ended, Process, eventually};
use semel_testkit::{Gateway, Lines, Setup, without_settings};

pub(crate) const API: &str = "payments API listening on http://";
pub(crate) const GATEWAY: &str = "semel gateway listening on http://";
const SEMEL: &str = env!("CARGO_BIN_EXE_semel");

/// Waits for a line with this in it, which goes on with an address.
pub(crate) fn address_after(start: &str, said: &mut Lines) -> SocketAddr {
    let line = said.wait_for(start);
    let (_, rest) = line.split_once(start).expect("an address");
    rest.split(' ').next().expect("an address").parse().expect("an address")
}

/// The program in a directory.
pub(crate) fn semel(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = semel_testkit::semel(SEMEL, arguments);
    command.current_dir(directory);
    command
}

pub(crate) fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/gateway-any-language")
}

/// The Python server on a free port.
pub(crate) fn api() -> (Process, SocketAddr) {
    needs("python3");
    let mut command = Command::new("python3");
    command.args(["server.py", "0"]).current_dir(directory());
    let mut running = Process::start(&mut command);
    let address = address_after(API, &mut running.out);
    (running, address)
}

/// The gateway with a configuration in this directory, on free ports.
pub(crate) fn gateway(directory: &Path, api: SocketAddr, records: &Path) -> Gateway {
    let setup = Setup::new(SEMEL).in_directory(directory).arguments(&store(records));
    let upstream = format!("http://{api}");
    setup.arguments(&["--config", "semel.toml", "--upstream", &upstream]).start_unready()
}

/// The script that starts both.
pub(crate) fn run_sh(port: u16, records: &Path) -> Process {
    needs("python3");
    // A background process ignores Ctrl-C, and so would the script.
    let mut command = Command::new("env");
    command.args(["--default-signal=INT", "./run.sh"]);
    command.args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]).args(store(records));
    without_settings(&mut command);
    command.env("SEMEL", SEMEL).env("API_PORT", port.to_string()).current_dir(directory());
    Process::start(&mut command).with_grace()
}

fn store(records: &Path) -> [String; 2] {
    ["--store".to_owned(), format!("embedded:{}", records.join("semel-data").display())]
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
    let Ended { code, out, err } =
        Ended::of(Command::new("sh").args(["-c", line]).current_dir(directory));
    assert_eq!(code, Some(0), "this failed: {line}\n{err}");
    out
}

pub(crate) fn get(to: SocketAddr, path: &str) -> String {
    Call::new("GET", path).send_to(to).text()
}

fn needs(program: &str) {
    let found = Command::new(program).arg("--version").output();
    let found = found.is_ok_and(|output| output.status.success());
    assert!(found, "this test needs {program}; install it with: apt-get install {program}");
}
