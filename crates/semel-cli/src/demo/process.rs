//! The gateway of the demo: a process of its own, so that it can be killed.

use std::fs::File;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdin, Command};
use tokio::time::timeout;

/// Time to open the store and to serve.
const START_MAX: Duration = Duration::from_mins(1);
/// Time to drain: somewhat more than its own limit.
const STOP_MAX: Duration = Duration::from_secs(10);

/// How the gateway is started, each time.
pub(super) struct Plan {
    pub(super) executable: PathBuf,
    pub(super) directory: PathBuf,
    pub(super) listen: SocketAddr,
    pub(super) admin: SocketAddr,
    pub(super) upstream: SocketAddr,
}

/// A gateway that serves.
pub(super) struct Process {
    child: Child,
    /// The gateway ends when this closes. Kept apart from the child: `wait` on it would close it.
    stdin: Option<ChildStdin>,
    pub(super) id: u32,
    pub(super) listen: SocketAddr,
    pub(super) admin: SocketAddr,
    id_file: PathBuf,
}

// === impl Plan ===

impl Plan {
    pub(super) fn configuration(&self) -> PathBuf {
        self.directory.join("gateway.toml")
    }

    pub(super) fn id_file(&self) -> PathBuf {
        self.directory.join("gateway.pid")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command
            .args(["gateway", "--until-stdin-closes", "--config"])
            .arg(self.configuration())
            .args(["--listen", &self.listen.to_string(), "--admin", &self.admin.to_string()])
            .args(["--upstream", &format!("http://{}", self.upstream)])
            .arg("--store")
            .arg(format!("embedded:{}", self.directory.join("store").display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // Ctrl-C is for the demo, which then stops its gateway.
            .process_group(0)
            .kill_on_drop(true);
        // Settings of the user's own gateway are not for this one.
        let names = std::env::vars_os().map(|(name, _)| name);
        for name in names.filter(|name| name.to_string_lossy().starts_with("SEMEL_")) {
            command.env_remove(name);
        }
        command
    }
}

// === impl Process ===

impl Process {
    /// Starts a gateway and waits until it serves.
    pub(super) async fn start(plan: &Plan) -> anyhow::Result<Self> {
        let mut child = plan.command().spawn().context("the gateway cannot be started")?;
        let id = child.id().context("the gateway has no process id")?;
        let stderr = child.stderr.take().context("the gateway has no standard error")?;
        let stdin = child.stdin.take();
        let mut lines = BufReader::new(stderr).lines();
        let mut log = open_log(&plan.directory)?;
        let started = timeout(START_MAX, announced(&mut lines, &mut log)).await;
        let (listen, admin) = started.context("the gateway does not start")??;
        tokio::spawn(keep(lines, log));
        let id_file = plan.id_file();
        std::fs::write(&id_file, format!("{id}\n"))
            .with_context(|| format!("cannot write {}", id_file.display()))?;
        Ok(Self { child, stdin, id, listen, admin, id_file })
    }

    /// Waits until it has died. May be called again when it was cut off.
    pub(super) async fn died(&mut self) -> Option<ExitStatus> {
        let status = self.child.wait().await.ok();
        // Its id may soon be another's, and the file is there to kill by.
        let _ = std::fs::remove_file(&self.id_file);
        status
    }

    /// `kill -9`.
    pub(super) async fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("the gateway cannot be killed")
    }

    /// Lets it drain.
    pub(super) async fn stop(mut self) {
        drop(self.stdin.take());
        if timeout(STOP_MAX, self.child.wait()).await.is_err() {
            // It is dead either way.
            let _ = self.child.kill().await;
        }
        let _ = std::fs::remove_file(&self.id_file);
    }
}

fn open_log(directory: &Path) -> anyhow::Result<File> {
    let path = directory.join("gateway.log");
    File::options()
        .create(true)
        .append(true)
        .open(&path)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Waits for the line with the gateway's addresses.
async fn announced(
    lines: &mut Lines<BufReader<ChildStderr>>,
    log: &mut File,
) -> anyhow::Result<(SocketAddr, SocketAddr)> {
    let mut said = String::new();
    while let Some(line) = lines.next_line().await? {
        writeln!(log, "{line}")?;
        if let Some(addresses) = addresses(&line) {
            return Ok(addresses);
        }
        if !line.starts_with("semel: ") && said.len() < 4_000 {
            said = said + "\n" + &line;
        }
    }
    bail!("the gateway did not start:{said}")
}

fn addresses(line: &str) -> Option<(SocketAddr, SocketAddr)> {
    let rest = line.strip_prefix("semel gateway listening on http://")?;
    let (listen, admin) = rest.split_once(" (admin http://")?;
    Some((listen.parse().ok()?, admin.strip_suffix(')')?.parse().ok()?))
}

/// Keeps the gateway's log until it ends. A log that cannot be written stops nothing.
async fn keep(mut lines: Lines<BufReader<ChildStderr>>, mut log: File) {
    while let Ok(Some(line)) = lines.next_line().await {
        let _ = writeln!(log, "{line}");
    }
}
