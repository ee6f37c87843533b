//! Starting the server.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{Postgres, cluster};
use crate::Error;
use crate::process::{on_a_spare_port, on_its_port};
use crate::run::run;
use crate::supervisor::tied;

const RECLAIM_LIMIT: Duration = Duration::from_secs(30);

// === impl Postgres ===

impl Postgres {
    /// Starts on a port out of `ports`, and on the next if another process was quicker.
    pub(super) fn first_start(
        &mut self,
        ports: impl FnMut() -> Result<u16, Error>,
    ) -> Result<(), Error> {
        on_a_spare_port(ports, |port| {
            self.port = port;
            self.launch()
        })
    }

    /// Starts the server again with the same data on the same port, and waits until it can be used.
    ///
    /// After a crash that is when it has recovered.
    pub fn start_again(&self) -> Result<(), Error> {
        on_its_port(|| self.launch())
    }

    /// A crash leaves shared memory behind, which only the next start gives back. So if no one
    /// starts the server again, this does, for a moment.
    pub(super) fn reclaim(&self) {
        if self.directory.is_temporary() && self.lock_path().exists() {
            self.forget_stale_lock();
            let command = self.command("KILL", &["--single", "-F"], &["template1"]);
            // Nothing depends on it but a little memory.
            let _ = run("postgres --single", command, "", RECLAIM_LIMIT);
        }
    }

    fn launch(&self) -> Result<(), Error> {
        let command = || {
            self.forget_stale_lock();
            self.command("QUIT", &[], &[])
        };
        let log = self.directory.path().join("log");
        self.process.launch(&log, command, |pid| self.says_ready(pid) && self.answers())
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
            Err(Error::Failed { output, .. }) => {
                output.contains("too many clients") || output.contains("connection slots")
            }
            Err(_) => false,
        }
    }

    /// The server, which gets `signal` when this process ends.
    fn command(&self, signal: &str, first: &[&str], last: &[&str]) -> Command {
        let mut command = tied(&self.bin("postgres"), self.account, signal);
        command.args(first).arg("-D").arg(cluster::data(&self.directory));
        for (name, value) in &self.settings {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        // Later ones win. Paths count from the cluster, where the server works: however deep that
        // is, the name of the socket is short enough.
        let port = self.port.to_string();
        let mut ours =
            vec![("port", port.as_str()), ("cluster_name", self.process.mark().as_str())];
        ours.extend([("listen_addresses", "127.0.0.1"), ("unix_socket_directories", ".")]);
        if self.certificate.is_some() {
            ours.extend([("ssl", "on"), ("ssl_cert_file", "../server.crt")]);
            ours.push(("ssl_key_file", "../server.key"));
        }
        for (name, value) in ours {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        // An example that handles Ctrl-C itself must not lose its server to it.
        command.args(last).current_dir(self.directory.path()).process_group(0);
        command
    }

    fn lock_path(&self) -> PathBuf {
        cluster::data(&self.directory).join("postmaster.pid")
    }

    /// A server that was killed leaves its lock. It blocks no start, unless the process id in it
    /// has been given to another process since.
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

#[cfg(test)]
mod tests;
