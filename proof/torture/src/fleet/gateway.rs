//! One gateway that runs.

use std::fs::{self, OpenOptions};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process};
use semel_testkit::{Addresses, Answer, get, without_settings};
use semel_testserver::{killed_with_us, spawn};

use crate::stop;
use crate::time::Clock;

const START_LIMIT: Duration = Duration::from_secs(30);
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);
/// A frozen or starved gateway does not report its counters, and nothing waits for that.
const ASK_LIMIT: Duration = Duration::from_millis(500);
const LOG_LINES_MAX: usize = 20;

/// A process. Killed when dropped.
pub(crate) struct Gateway {
    child: Child,
    addresses: Option<Addresses>,
}

/// What came of a start.
pub(super) enum Start {
    Listens(Gateway),
    /// It ended with 1, which says that it could not begin: its store may be away. Or it hangs.
    Failed(String),
}

// === impl Gateway ===

impl Gateway {
    /// Starts it, and waits until it listens. What it says is added to `log`.
    pub(super) fn start(
        program: &Path,
        config: &Path,
        log: &Path,
        environment: &[(String, String)],
    ) -> anyhow::Result<Start> {
        let file = OpenOptions::new().create(true).append(true).open(log)?;
        let before = usize::try_from(file.metadata()?.len())?;
        let mut command = command(program, config, environment);
        command.stdout(file.try_clone()?).stderr(file);
        // Held from here on, so that it is killed if it does not get up.
        let mut gateway = Self { child: spawn(command)?, addresses: None };
        let mut said = String::new();
        let seen = look(START_LIMIT, || {
            // In this order: what has ended has said everything.
            let ended = gateway.has_ended();
            said = text_after(log, before)?;
            Ok(Addresses::find(&said).map(Ok).or(ended.map(Err)))
        })?;
        match seen {
            Some(Ok(addresses)) => {
                gateway.addresses = Some(addresses);
                Ok(Start::Listens(gateway))
            }
            Some(Err(status)) if status.code() == Some(1) => {
                Ok(Start::Failed(format!("it could not start, and said:\n{said}")))
            }
            Some(Err(status)) => bail!("it ended at its start ({status}) and said:\n{said}"),
            None => Ok(Start::Failed(format!("it does not listen, and said:\n{said}"))),
        }
    }

    /// Nothing while it starts.
    pub(super) fn listen(&self) -> Option<SocketAddr> {
        self.addresses.map(|addresses| addresses.listen)
    }

    pub(super) fn pause(&self) -> anyhow::Result<()> {
        self.signal(Signal::STOP)
    }

    pub(super) fn resume(&self) -> anyhow::Result<()> {
        self.signal(Signal::CONT)
    }

    pub(super) fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Sends SIGTERM and waits for the exit. True if everything was completed. Exit code 1 means that something was
    /// cut off, such as a claim whose result an unavailable store did not return.
    pub(super) fn terminate(mut self, limit: Duration) -> anyhow::Result<bool> {
        self.signal(Signal::TERM)?;
        let ended = look(limit, || Ok(self.has_ended()))?;
        let status =
            ended.with_context(|| format!("it has not ended {limit:?} after it was asked to"))?;
        match status.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => bail!("it ended with {status} when it was asked to end"),
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.ask("/ready").is_some_and(|answer| answer.status == 200)
    }

    /// How many writes the store has refused because of their fence.
    pub(super) fn refused(&self) -> u64 {
        let metrics = self.ask("/metrics").map(|answer| answer.text()).unwrap_or_default();
        metrics.lines().filter(|line| is_refusal(line)).filter_map(value).sum()
    }

    fn ask(&self, path: &str) -> Option<Answer> {
        get(self.addresses?.admin, path, ASK_LIMIT).ok()
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.child), signal).context("a signal to a gateway")
    }
}

fn command(program: &Path, config: &Path, environment: &[(String, String)]) -> Command {
    let mut command = killed_with_us(program);
    command.args(["gateway", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--config"]);
    // What a terminal sends to all of its job is not meant for gateways: they end as the run says.
    command.arg(config).stdin(Stdio::null()).process_group(0);
    without_settings(&mut command);
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    command
}

/// Looks until there is something to see; `None` if there is nothing within `limit`. Fails once a signal
/// has come.
fn look<T>(
    limit: Duration,
    mut see: impl FnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<Option<T>> {
    let clock = Clock::start();
    while clock.elapsed() < limit {
        stop::check()?;
        if let Some(seen) = see()? {
            return Ok(Some(seen));
        }
        thread::sleep(BETWEEN_LOOKS);
    }
    Ok(None)
}

/// What is in a log after so many bytes.
fn text_after(log: &Path, bytes: usize) -> anyhow::Result<String> {
    let said = fs::read(log)?;
    Ok(String::from_utf8_lossy(said.get(bytes..).unwrap_or_default()).into_owned())
}

/// Another holder has the lease, or had it and settled. A renewal may find its own settlement before its
/// confirmation; that is no refusal.
fn is_refusal(line: &str) -> bool {
    let has = |label: &str, values: &[&str]| {
        values.iter().any(|value| line.contains(&format!("{label}=\"{value}\"")))
    };
    line.contains("semel_store_answers_total{")
        && (has("verb", &["renew", "settle", "release"]) && has("answer", &["superseded"])
            || has("verb", &["settle", "release"]) && has("answer", &["settled"]))
}

fn value(line: &str) -> Option<u64> {
    line.rsplit_once(' ')?.1.parse().ok()
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The end of a log.
pub(super) fn last_lines(log: &Path) -> String {
    let said = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = said.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES_MAX)..].join("\n")
}
