//! How a server is to be started.

use std::path::PathBuf;
use std::sync::Arc;
use std::{env, fs};

use super::Redis;
use crate::Error;
use crate::certificate;
use crate::cleanup::Cleanup;
use crate::clock::Clock;
use crate::directory::DataDirectory;
use crate::mark::Mark;
use crate::port;
use crate::process::{Process, on_a_spare_port};

/// How a [`Redis`] is to be started.
#[derive(Clone, Debug, Default)]
pub struct RedisOptions {
    settings: Vec<(String, String)>,
    clock: Option<Arc<Clock>>,
    sentinel: Option<String>,
    tls: bool,
}

// === impl RedisOptions ===

impl RedisOptions {
    /// A setting as in `redis.conf`, such as `appendonly`.
    ///
    /// Not those that this crate sees to: where the server listens, and where it keeps its data.
    #[must_use]
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Has the server live by this clock.
    #[must_use]
    pub fn clock(mut self, clock: Arc<Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Speaks TLS alone, with a certificate of its own for 127.0.0.1 and `localhost`:
    /// [`Redis::certificate`]. Needs `openssl`.
    #[must_use]
    pub fn tls(mut self) -> Self {
        self.tls = true;
        self
    }

    /// A sentinel instead, which watches over the master at `port` together with others, so that `quorum`
    /// of them have to agree that it is down. It waits half a second for that.
    #[must_use]
    pub fn sentinel(mut self, name: &str, port: u16, quorum: usize) -> Self {
        self.sentinel = Some(format!(
            "sentinel monitor {name} 127.0.0.1 {port} {quorum}\n\
             sentinel down-after-milliseconds {name} 500\n\
             sentinel failover-timeout {name} 2000\n"
        ));
        self
    }

    /// These settings after those of `options`, and all else as there.
    pub(super) fn on_top_of(self, options: &Self) -> Self {
        let mut all = options.clone();
        all.settings.extend(self.settings);
        all
    }

    /// Starts the server, and waits until it can be used.
    pub fn start(self) -> Result<Redis, Error> {
        check_installed()?;
        let directory = DataDirectory::temporary("redis", None)?;
        let data = directory.path().join("data");
        fs::create_dir(&data).map_err(Error::at(&data))?;
        let mark = Mark::new(directory.path())?;
        let cleanup = Cleanup::start(&mark, Some(directory.path()))?;
        let process = Process::new(mark);
        let Self { settings, clock, sentinel, tls } = self;
        let certificate = tls.then(|| certificate::make(&directory, None)).transpose()?;
        let is_sentinel = sentinel.is_some();
        if let Some(lines) = sentinel {
            // It writes down there what it learns.
            let file = directory.path().join("sentinel.conf");
            fs::write(&file, lines).map_err(Error::at(&file))?;
        }
        let mut redis = Redis {
            settings,
            clock,
            is_sentinel,
            certificate,
            port: 0,
            process,
            _cleanup: cleanup,
            directory,
        };
        on_a_spare_port(port::spare, |port| {
            redis.port = port;
            redis.launch()
        })?;
        Ok(redis)
    }
}

/// The server's program: the one that the environment names, so that tests can be run on a kin of Redis.
pub(super) fn program() -> PathBuf {
    env::var_os("TEST_REDIS_SERVER").map_or_else(|| "redis-server".into(), PathBuf::from)
}

fn check_installed() -> Result<(), Error> {
    let path = env::var_os("PATH").unwrap_or_default();
    let directories: Vec<PathBuf> = env::split_paths(&path).collect();
    for (program, package) in
        [(program(), "redis-server"), (PathBuf::from("redis-cli"), "redis-tools")]
    {
        // What has a directory of its own is looked for there.
        if !directories.iter().any(|directory| directory.join(&program).is_file()) {
            let (what, looked_in) = (program.display().to_string(), "PATH".to_owned());
            return Err(Error::NotInstalled { what, looked_in, package });
        }
    }
    Ok(())
}
