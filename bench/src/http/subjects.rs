//! What is compared: nginx, gateways and apps, one process for each setting.

mod apps;
mod nginx;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use semel_testkit::{Addresses, without_settings};

use super::load;
use super::plain::{Connection, Post};
use super::procfs;
use super::running::{Running, log_in};
use super::tools::Tools;
use super::upstream;
pub(crate) use apps::{Layer, versions};

/// Which subject. A port is that of a Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The upstream itself, with nothing before it.
    Direct,
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
    /// Protecting; records are on PostgreSQL.
    Postgres,
    /// An app of its own, with a layer around it that keeps records on Redis.
    App(Layer, u16),
}

pub(crate) struct Subject {
    pub(crate) kind: Kind,
    pub(crate) address: SocketAddr,
    /// The address of a gateway's metrics.
    admin: Option<SocketAddr>,
    /// The counter of executions.
    executes: SocketAddr,
    /// Nothing if it is the upstream, which is held elsewhere.
    running: Option<Running>,
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
            Kind::App(layer, redis) => Self::app(layer, redis, &kind.name(), scratch),
            Kind::Direct => Ok(Self::direct(upstream)),
            _ => Self::gateway(kind, &kind.name(), &tools.semel, upstream, scratch),
        }
    }

    pub(crate) fn app(
        layer: Layer,
        redis: u16,
        name: &str,
        scratch: &Path,
    ) -> anyhow::Result<Self> {
        apps::start(layer, redis, name, scratch)
    }

    /// The upstream itself.
    pub(crate) fn direct(upstream: SocketAddr) -> Self {
        let (address, executes) = (upstream, upstream);
        Self { kind: Kind::Direct, address, admin: None, executes, running: None }
    }

    pub(crate) fn gateway(
        kind: Kind,
        name: &str,
        program: &Path,
        upstream: SocketAddr,
        scratch: &Path,
    ) -> anyhow::Result<Self> {
        let settings = kind.settings(&scratch.join(name));
        Self::gateway_with(kind, name, &settings, program, upstream, scratch)
    }

    /// A gateway with these lines in its configuration, besides addresses.
    pub(crate) fn gateway_with(
        kind: Kind,
        name: &str,
        settings: &str,
        program: &Path,
        upstream: SocketAddr,
        scratch: &Path,
    ) -> anyhow::Result<Self> {
        let file = scratch.join(format!("{name}.toml"));
        let addresses = "listen = \"127.0.0.1:0\"\nadmin = \"127.0.0.1:0\"\n";
        fs::write(&file, format!("upstream = \"http://{upstream}\"\n{addresses}{settings}"))?;
        let mut command = Command::new(program);
        // It ends with the pipe: also if this process is killed and cannot end it.
        command.args(["gateway", "--until-stdin-closes", "--config"]).arg(&file);
        command.stdin(Stdio::piped());
        without_settings(&mut command);
        let mut running = Running::start("the gateway", log_in(scratch, name), &mut command)?;
        let Addresses { listen: address, admin, .. } = running.wait_for(Addresses::find)?;
        Ok(Self { kind, address, admin: Some(admin), executes: upstream, running: Some(running) })
    }

    pub(crate) fn cpu_time(&self) -> Duration {
        self.running.as_ref().map_or(Duration::ZERO, |running| procfs::cpu_time(running.id()))
    }

    /// How often something was executed so far.
    pub(crate) fn executions(&self) -> anyhow::Result<u64> {
        upstream::count(self.executes)
    }

    /// How many files and sockets it has open.
    pub(crate) fn descriptors(&self) -> usize {
        let open = self.running.as_ref().map(|running| format!("/proc/{}/fd", running.id()));
        open.and_then(|open| fs::read_dir(open).ok()).map_or(0, Iterator::count)
    }

    /// What a gateway says of one of its metrics without labels.
    pub(crate) fn metric(&self, name: &str) -> anyhow::Result<f64> {
        let admin = self.admin.context("it has no metrics")?;
        let metrics = String::from_utf8(Connection::open(admin)?.get("/metrics")?.body)?;
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(line.with_context(|| format!("no {name}"))?.parse()?)
    }

    pub(crate) fn resident(&self) -> anyhow::Result<f64> {
        procfs::resident(self.running.as_ref().context("it is the upstream")?.id())
    }

    /// Kills the process (kill -9). What it executes by itself is forgotten with it.
    pub(crate) fn kill(&mut self) -> anyhow::Result<()> {
        self.running.as_mut().context("the upstream is not ours to kill")?.kill()
    }

    /// True if the app itself executes and counts.
    pub(crate) fn executes_by_itself(&self) -> bool {
        self.executes == self.address
    }

    /// Opens so many sessions, if the subject works in sessions at all.
    pub(crate) fn sessions(&self, many: usize) -> anyhow::Result<Vec<String>> {
        let Kind::App(Layer::AxumIdempotent, _) = self.kind else {
            return Ok(Vec::new());
        };
        let mut connection = Connection::open(self.address)?;
        let mut open = || -> anyhow::Result<String> {
            let answer = connection.post(&Post::new("/session", "none"))?;
            let cookie = answer.values("set-cookie").next().context("no session was opened")?;
            Ok(cookie.split(';').next().unwrap_or_default().to_owned())
        };
        (0..many).map(|_| open()).collect()
    }

    /// Settles the keys that are replayed later, with bodies of this size.
    pub(crate) fn settle(&self, bytes: usize) -> anyhow::Result<()> {
        self.settle_in(&[], bytes)
    }

    /// The same, each key in its session. On a few connections at once.
    pub(crate) fn settle_in(&self, sessions: &[String], bytes: usize) -> anyhow::Result<()> {
        const CONNECTIONS: usize = 8;
        let request = |number: usize| {
            let key = format!("{}{number}", load::settled_prefix(bytes));
            let mut post = Post::new(&load::path(bytes), &key);
            post.body = load::body(bytes);
            post.cookie = (!sessions.is_empty()).then(|| sessions[number % sessions.len()].clone());
            post
        };
        let settle = |first: usize| -> anyhow::Result<()> {
            let mut connection = Connection::open(self.address)?;
            for number in (first..load::settled(bytes)).step_by(CONNECTIONS) {
                let answer = connection.post(&request(number))?;
                ensure!(answer.status == 201, "key {number} was answered {}", answer.status);
            }
            Ok(())
        };
        let before = self.executions()?;
        thread::scope(|scope| {
            let settle = &settle;
            let settling: Vec<_> =
                (0..CONNECTIONS).map(|first| scope.spawn(move || settle(first))).collect();
            settling.into_iter().try_for_each(|one| {
                one.join().unwrap_or_else(|_| Err(anyhow::anyhow!("settling panicked")))
            })
        })?;
        let executed = self.executions()? - before;
        ensure!(executed == load::settled(bytes) as u64, "not every key was executed: {executed}");
        // Some answer first and write their records after that.
        thread::sleep(Duration::from_millis(300));
        let again = Connection::open(self.address)?.post(&request(0))?;
        let replayed = again.status == 201 && self.executions()? == before + executed;
        ensure!(replayed, "a settled key is not replayed: {} {:?}", again.status, again.head);
        Ok(())
    }
}
