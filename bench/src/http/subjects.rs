//! What is compared: nginx, gateways and apps, one process for each setting.

mod apps;
mod nginx;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::ensure;

use super::load::SETTLED;
use super::plain::Connection;
use super::procfs;
use super::running::{Running, log_in};
use super::tools::Tools;
use super::upstream;
pub(crate) use apps::Layer;

/// Which subject. A port is that of a Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// nginx as a plain reverse proxy, with so many worker processes.
    Nginx(u8),
    /// A gateway that passes everything on.
    Off,
    /// A gateway with nothing but an upstream set, for requests that it does not protect.
    Default,
    /// Protecting, with records in memory.
    Memory,
    /// Protecting; records survive the process.
    Process,
    /// Protecting; records survive a power cut.
    Power,
    /// The same, with keys that were settled before.
    Replays,
    /// Watching only.
    Shadow,
    /// Protecting; records are on Redis.
    Redis(u16),
    /// The same, with keys that were settled before.
    RedisReplays(u16),
    /// An axum app of its own, with a layer around it that keeps records on Redis.
    App(Layer, u16),
}

pub(crate) struct Subject {
    pub(crate) kind: Kind,
    pub(crate) address: SocketAddr,
    /// Who knows how much was executed.
    executes: SocketAddr,
    running: Running,
}

// === impl Kind ===

impl Kind {
    fn name(self) -> String {
        format!("{self:?}").to_lowercase().replace(['(', ')', ' '], "").replace(',', "-")
    }

    /// What the configuration of a gateway says besides addresses. Of what is not named here the
    /// defaults hold, also for the log: every protected request leaves a line.
    fn settings(self, store: &Path) -> String {
        let store = format!("embedded:{}", store.display());
        match self {
            Self::Off => "store = \"memory:\"\n[policy]\nmode = \"off\"\n".to_owned(),
            Self::Memory => "store = \"memory:\"\n".to_owned(),
            Self::Process => format!("store = \"{store}\"\ndurability = \"process\"\n"),
            Self::Shadow => format!("store = \"{store}\"\n[policy]\nmode = \"shadow\"\n"),
            Self::Redis(port) | Self::RedisReplays(port) => {
                format!("store = \"redis://127.0.0.1:{port}\"\n")
            }
            _ => format!("store = \"{store}\"\n"),
        }
    }
}

// === impl Subject ===

impl Subject {
    pub(crate) fn start(
        kind: Kind,
        tools: &Tools,
        upstream: SocketAddr,
        scratch: &Path,
    ) -> anyhow::Result<Self> {
        match kind {
            Kind::Nginx(workers) => nginx::start(workers, &tools.nginx, upstream, scratch),
            Kind::App(layer, redis) => apps::start(layer, redis, scratch),
            _ => Self::gateway(kind, &kind.name(), &tools.semel, upstream, scratch),
        }
    }

    pub(crate) fn gateway(
        kind: Kind,
        name: &str,
        program: &Path,
        upstream: SocketAddr,
        scratch: &Path,
    ) -> anyhow::Result<Self> {
        let file = scratch.join(format!("{name}.toml"));
        let addresses = "listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n";
        let settings = kind.settings(&scratch.join(name));
        fs::write(&file, format!("upstream = \"http://{upstream}\"\n{addresses}{settings}"))?;
        let mut command = Command::new(program);
        // It ends with the pipe: also if this process is killed and cannot end it.
        command.args(["gateway", "--until-stdin-closes", "--config"]).arg(&file);
        command.stdin(Stdio::piped());
        let ours = std::env::vars_os().map(|(name, _)| name);
        for name in ours.filter(|name| name.to_string_lossy().starts_with("SEMEL_")) {
            command.env_remove(name);
        }
        let mut running = Running::start("the gateway", log_in(scratch, name), &mut command)?;
        let address = running.wait_for(|said| {
            let rest = said.split_once("semel gateway listening on http://")?.1;
            rest.split_once(" (admin ")?.0.parse().ok()
        })?;
        Ok(Self { kind, address, executes: upstream, running })
    }

    pub(crate) fn cpu_time(&self) -> Duration {
        procfs::cpu_time(self.running.id())
    }

    /// How often something was executed so far.
    pub(crate) fn executions(&self) -> anyhow::Result<u64> {
        upstream::count(self.executes)
    }

    pub(crate) fn resident(&self) -> anyhow::Result<f64> {
        procfs::resident(self.running.id())
    }

    /// Settles the keys that are replayed later, on a few connections at once.
    pub(crate) fn settle(&self) -> anyhow::Result<()> {
        const CONNECTIONS: u32 = 8;
        let settle = |first: u32| -> anyhow::Result<()> {
            let mut connection = Connection::open(self.address)?;
            for key in (first..SETTLED).step_by(CONNECTIONS as usize) {
                let answer = connection.post(&format!("settled-{key}"))?;
                ensure!(answer.status == 201 && !answer.is_replay(), "key {key} was not executed");
            }
            Ok(())
        };
        thread::scope(|scope| {
            let settling: Vec<_> =
                (0..CONNECTIONS).map(|first| scope.spawn(move || settle(first))).collect();
            settling.into_iter().try_for_each(|one| {
                one.join().unwrap_or_else(|_| Err(anyhow::anyhow!("settling panicked")))
            })
        })?;
        let again = Connection::open(self.address)?.post("settled-0")?;
        ensure!(again.is_replay(), "a settled key is not replayed: {:?}", again.head);
        Ok(())
    }
}
