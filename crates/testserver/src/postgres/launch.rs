//! Starting the server.

use std::fs::{self, OpenOptions};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::faults::{STOP_LIMIT, running};
use super::{Postgres, cluster};
use crate::Error;
use crate::keeper::{self, tied};
use crate::patience::wait_for;
use crate::run::run;

/// Recovery after a crash is a part of it.
const START_LIMIT: Duration = Duration::from_mins(2);
const PORT_LIMIT: Duration = Duration::from_mins(1);
const PORT_TRIES: usize = 10;
const RECLAIM_LIMIT: Duration = Duration::from_secs(30);
const LOG_LINES_MAX: usize = 30;

// === impl Postgres ===

impl Postgres {
    /// Starts on a port out of `ports`, and on the next if somebody else was quicker.
    pub(super) fn first_start(
        &mut self,
        mut ports: impl FnMut() -> Result<u16, Error>,
    ) -> Result<(), Error> {
        let mut tries = 0;
        loop {
            tries += 1;
            self.port = ports()?;
            let result = self.launch();
            if tries == PORT_TRIES || !is_port_taken(&result) {
                return result;
            }
        }
    }

    /// Starts the server again with the same data on the same port, and waits until it can be used.
    ///
    /// After a crash that is when it has recovered.
    pub fn start_again(&self) -> Result<(), Error> {
        let mut result = Ok(());
        // Somebody's connection may have been given our port meanwhile.
        let _ = wait_for(PORT_LIMIT, || {
            result = self.launch();
            (!is_port_taken(&result)).then_some(())
        });
        result
    }

    /// A crash leaves shared memory behind, which only the next start gives back. So if nobody
    /// starts the server again, this does, for a moment.
    pub(super) fn reclaim(&self) {
        if self.home.is_temporary() && self.lock_path().exists() {
            self.forget_stale_lock();
            let command = self.command("KILL", &["--single", "-F"], &["template1"]);
            // Nothing depends on it but a little memory.
            let _ = run("postgres --single", command, "", RECLAIM_LIMIT);
        }
    }

    fn launch(&self) -> Result<(), Error> {
        let mut server = self.server();
        if running(&mut server).is_ok() {
            return Err(Error::Up);
        }
        // If somebody killed the postmaster alone, the others take a moment to notice.
        let _ = wait_for(STOP_LIMIT, || self.processes().is_empty().then_some(()));
        self.forget_stale_lock();
        let log_path = self.home.path().join("log");
        let open = || OpenOptions::new().create(true).append(true).open(&log_path);
        let log = open().map_err(Error::at(&log_path))?;
        let before = log.metadata().map_err(Error::at(&log_path))?.len();
        let mut command = self.command("QUIT", &[], &[]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = server.insert(keeper::spawn(command)?);
        let result = self.wait_until_ready(child);
        drop(server);
        result.map_err(|why| {
            self.end();
            Error::NotStarted { why, log: last_lines(&log_path, before) }
        })
    }

    fn wait_until_ready(&self, child: &mut Child) -> Result<(), String> {
        let seen = wait_for(START_LIMIT, || match child.try_wait() {
            Ok(None) => (self.says_ready(child.id()) && self.answers()).then_some(Ok(())),
            Ok(Some(status)) => Some(Err(status.to_string())),
            Err(error) => Some(Err(error.to_string())),
        });
        seen.unwrap_or_else(|| Err(format!("not ready within {START_LIMIT:?}")))
    }

    /// The postmaster writes down how far it is: cheaper to look at than to connect.
    fn says_ready(&self, pid: u32) -> bool {
        let lock = fs::read_to_string(self.lock_path()).unwrap_or_default();
        let mut lines = lock.lines();
        // What is there may be of an earlier postmaster.
        lines.next() == Some(&pid.to_string()) && lines.nth(6).map(str::trim) == Some("ready")
    }

    /// A connection with the password works; or it would, had not others taken them all.
    fn answers(&self) -> bool {
        match self.psql_in("postgres", "select 1", Duration::from_secs(5)) {
            Ok(_) => true,
            Err(Error::Failed { said, .. }) => {
                said.contains("too many clients") || said.contains("connection slots")
            }
            Err(_) => false,
        }
    }

    /// The server, which gets `signal` when this process ends.
    fn command(&self, signal: &str, first: &[&str], last: &[&str]) -> Command {
        let mut command = tied(&self.bin("postgres"), self.account, signal);
        command.args(first).arg("-D").arg(cluster::data(&self.home));
        for (name, value) in &self.settings {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        // Later ones win. Paths count from the cluster, where the server works: however deep that
        // is, the name of the socket is short enough.
        let port = self.port.to_string();
        let mut ours = vec![("port", port.as_str()), ("cluster_name", self.mark.as_str())];
        ours.extend([("listen_addresses", "127.0.0.1"), ("unix_socket_directories", ".")]);
        if self.certificate.is_some() {
            ours.extend([("ssl", "on"), ("ssl_cert_file", "../server.crt")]);
            ours.push(("ssl_key_file", "../server.key"));
        }
        for (name, value) in ours {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        // An example that handles Ctrl-C itself must not lose its server to it.
        command.args(last).current_dir(self.home.path()).process_group(0);
        command
    }

    fn lock_path(&self) -> PathBuf {
        cluster::data(&self.home).join("postmaster.pid")
    }

    /// A server that was killed leaves its lock. It holds nobody off, unless the process id in it
    /// has been given to someone else since.
    ///
    /// We know better: the server's processes are gone, and the directory is ours.
    fn forget_stale_lock(&self) {
        let lock = fs::read_to_string(self.lock_path()).unwrap_or_default();
        let pid = lock.lines().next().unwrap_or_default();
        if !pid.is_empty() && Path::new("/proc").join(pid).exists() {
            let _ = fs::remove_file(self.lock_path());
        }
    }
}

fn is_port_taken(result: &Result<(), Error>) -> bool {
    matches!(result, Err(Error::NotStarted { log, .. }) if log.contains("Address already in use"))
}

/// The last lines of a log that were written after its first `before` bytes.
fn last_lines(path: &Path, before: u64) -> String {
    let log = fs::read(path).unwrap_or_default();
    let new = log.get(usize::try_from(before).unwrap_or_default()..).unwrap_or_default();
    let text = String::from_utf8_lossy(new);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES_MAX)..].join("\n")
}

#[cfg(test)]
mod tests;
