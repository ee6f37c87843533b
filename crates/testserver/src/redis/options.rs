//! How a server is to be started.

use std::path::PathBuf;
use std::sync::Arc;
use std::{env, fs};

use super::Redis;
use crate::Error;
use crate::clock::Clock;
use crate::home::Home;
use crate::janitor::Janitor;
use crate::mark::Mark;
use crate::port;
use crate::process::{Process, on_a_spare_port};

/// How a [`Redis`] is to be started.
#[derive(Clone, Debug, Default)]
pub struct RedisOptions {
    settings: Vec<(String, String)>,
    clock: Option<Arc<Clock>>,
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

    /// Starts the server, and waits until it can be used.
    pub fn start(self) -> Result<Redis, Error> {
        check_installed()?;
        let home = Home::temporary("redis", None)?;
        let data = home.path().join("data");
        fs::create_dir(&data).map_err(Error::at(&data))?;
        let mark = Mark::new(home.path())?;
        let janitor = Janitor::start(&mark, Some(home.path()))?;
        let process = Process::new(mark);
        let Self { settings, clock } = self;
        let mut redis = Redis { settings, clock, port: 0, process, _janitor: janitor, home };
        on_a_spare_port(port::spare, |port| {
            redis.port = port;
            redis.launch()
        })?;
        Ok(redis)
    }
}

fn check_installed() -> Result<(), Error> {
    let path = env::var_os("PATH").unwrap_or_default();
    let directories: Vec<PathBuf> = env::split_paths(&path).collect();
    for (program, package) in [("redis-server", "redis-server"), ("redis-cli", "redis-tools")] {
        if !directories.iter().any(|directory| directory.join(program).is_file()) {
            let (what, looked_in) = (program.to_owned(), "PATH".to_owned());
            return Err(Error::NotInstalled { what, looked_in, package });
        }
    }
    Ok(())
}
