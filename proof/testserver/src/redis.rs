//! Redis: one server.
//!
//! | in the directory | what |
//! |---|---|
//! | `data/` | what it keeps |
//! | `log` | the server's log |
//! | `redis.sock` | where it listens beside its port |
//! | `lock` | locked by the process that has the server |

mod cluster;
mod options;

use std::fmt;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;

use crate::Error;
use crate::cleanup::Cleanup;
use crate::clock::Clock;
use crate::directory::DataDirectory;
use crate::process::{Process, STOP_LIMIT, on_its_port};
use crate::run::run;
use crate::supervisor::tied;

pub use cluster::RedisCluster;
pub use options::RedisOptions;

const CLI_LIMIT: Duration = Duration::from_mins(1);
/// How often a server is asked to end.
const STOP_TRIES: u32 = 12;

/// A private Redis server. It ends when this is dropped, or else with this process.
///
/// It listens on 127.0.0.1 and a socket of its own, and has Redis's own settings but for what
/// [`RedisOptions`] say, and that it saves nothing unless configured.
///
/// ```no_run
/// use semel_testserver::Redis;
///
/// let server = Redis::options().setting("appendonly", "yes").setting("appendfsync", "always").start()?;
/// server.cli(&["SET", "greeting", "hello"])?;
/// server.kill()?;
/// server.start_again()?;
/// assert_eq!(server.cli(&["GET", "greeting"])?, "hello");
/// # Ok::<(), semel_testserver::Error>(())
/// ```
pub struct Redis {
    settings: Vec<(String, String)>,
    clock: Option<Arc<Clock>>,
    is_sentinel: bool,
    certificate: Option<PathBuf>,
    port: u16,
    process: Process,
    // Dropped in this order: a cleanup process that still runs would see its directory vanish.
    _cleanup: Cleanup,
    directory: DataDirectory,
}

// === impl Redis ===

impl Redis {
    /// Starts a server in a temporary directory, in some 30 ms.
    pub fn start() -> Result<Self, Error> {
        Self::options().start()
    }

    /// How a server is to be started.
    pub fn options() -> RedisOptions {
        RedisOptions::default()
    }

    /// `redis://127.0.0.1:PORT`, or `rediss://` with TLS.
    pub fn url(&self) -> String {
        let scheme = if self.certificate.is_some() { "rediss" } else { "redis" };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    /// The certificate to trust, if the server was started with [`RedisOptions::tls`].
    pub fn certificate(&self) -> Option<&Path> {
        self.certificate.as_deref()
    }

    /// The port. It stays the same when the server is started again.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The socket.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("redis.sock")
    }

    /// Where the server keeps everything: its data is in `data`, its log in `log`.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Sends one command with `redis-cli`, and gives what it prints.
    pub fn cli(&self, command: &[&str]) -> Result<String, Error> {
        let mut cli = Command::new("redis-cli");
        cli.args(["-e", "-p", &self.port.to_string()]);
        if let Some(password) = self.setting("requirepass") {
            cli.args(["--no-auth-warning", "-a", password]);
        }
        if let Some(certificate) = &self.certificate {
            cli.arg("--tls").arg("--cacert").arg(certificate);
        }
        cli.args(command);
        let printed = run("redis-cli", cli, "", CLI_LIMIT)?;
        Ok(printed.trim_end().to_owned())
    }

    /// Has the server end as an operator would. A replica that is writing its first log refuses to, and
    /// forgets that it was asked, so it is asked again.
    pub fn stop(&self) -> Result<(), Error> {
        let ask = || self.process.stop(Signal::TERM, STOP_LIMIT / STOP_TRIES);
        let mut asked = ask();
        for _ in 1..STOP_TRIES {
            if !matches!(asked, Err(Error::TimedOut { .. })) {
                break;
            }
            asked = match ask() {
                // Since it was last looked at.
                Err(Error::Down) => Ok(()),
                again => again,
            };
        }
        asked
    }

    /// Kills the server (kill -9), and waits until it is gone.
    pub fn kill(&self) -> Result<(), Error> {
        self.process.kill()
    }

    /// Freezes the server: connections stay open, and nothing is answered.
    pub fn pause(&self) -> Result<(), Error> {
        self.process.pause()
    }

    /// Lets the server go on.
    pub fn resume(&self) -> Result<(), Error> {
        self.process.resume()
    }

    /// Starts the server again with the same data on the same port, and waits until it can be used.
    pub fn start_again(&self) -> Result<(), Error> {
        on_its_port(|| self.launch())
    }

    fn launch(&self) -> Result<(), Error> {
        let log = self.directory.path().join("log");
        // A replica may have lost its master, and still be there.
        let is_ready = |_| match self.cli(&["PING"]) {
            Ok(answer) => answer == "PONG",
            Err(Error::Failed { output, .. }) => output.contains("MASTERDOWN"),
            Err(_) => false,
        };
        self.process.launch(&log, || self.command(), is_ready)
    }

    fn command(&self) -> Command {
        let mut command = tied(&options::program(), None, "KILL");
        if self.is_sentinel {
            command.arg(self.directory.path().join("sentinel.conf")).arg("--sentinel");
        }
        let port = self.port.to_string();
        let mark = format!("{{title}} {}", self.process.mark().as_str());
        let socket = self.socket();
        let (plain, secret) = match self.certificate {
            Some(_) => ("0", port.as_str()),
            None => (port.as_str(), "0"),
        };
        for (name, value) in [
            ("port", plain),
            ("tls-port", secret),
            ("bind", "127.0.0.1"),
            ("unixsocket", &socket.to_string_lossy()),
            ("dir", &self.directory.path().join("data").to_string_lossy()),
            ("save", ""),
            ("daemonize", "no"),
            ("proc-title-template", &mark),
            // It has no business with other processes.
            ("oom-score-adj", "no"),
        ] {
            command.arg(format!("--{name}")).arg(value);
        }
        if let Some(certificate) = &self.certificate {
            for name in ["--tls-cert-file", "--tls-ca-cert-file"] {
                command.arg(name).arg(certificate);
            }
            command.arg("--tls-key-file").arg(self.directory.path().join("server.key"));
            command.args(["--tls-auth-clients", "no"]);
        }
        for (name, value) in &self.settings {
            command.arg(format!("--{name}")).args(value.split(' '));
        }
        for (name, value) in self.clock.iter().flat_map(|clock| clock.environment()) {
            command.env(name, value);
        }
        command.current_dir(self.directory.path()).process_group(0);
        command
    }

    fn setting(&self, name: &str) -> Option<&str> {
        let found = self.settings.iter().rev().find(|(setting, _)| setting == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis")
            .field("port", &self.port)
            .field("directory", &self.directory.path())
            .finish_non_exhaustive()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // Unwritten data is not needed.
        let _ = self.process.kill();
    }
}
