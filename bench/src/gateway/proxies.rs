//! The proxies that are compared: nginx and gateways, one process for each setting.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
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

/// Which proxy.
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
}

pub(crate) const ALL: [Kind; 9] = [
    Kind::Nginx(1),
    Kind::Nginx(2),
    Kind::Off,
    Kind::Default,
    Kind::Memory,
    Kind::Process,
    Kind::Power,
    Kind::Replays,
    Kind::Shadow,
];

pub(crate) struct Proxy {
    pub(crate) kind: Kind,
    pub(crate) address: SocketAddr,
    running: Running,
}

// === impl Kind ===

impl Kind {
    fn name(self) -> String {
        format!("{self:?}").to_lowercase().replace(['(', ')'], "")
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
            _ => format!("store = \"{store}\"\n"),
        }
    }
}

// === impl Proxy ===

impl Proxy {
    pub(crate) fn start(
        kind: Kind,
        tools: &Tools,
        upstream: SocketAddr,
        scratch: &Path,
    ) -> anyhow::Result<Self> {
        match kind {
            Kind::Nginx(workers) => Self::nginx(workers, &tools.nginx, upstream, scratch),
            _ => Self::gateway(kind, &kind.name(), &tools.semel, upstream, scratch),
        }
    }

    fn nginx(
        workers: u8,
        program: &Path,
        upstream: SocketAddr,
        scratch: &Path,
    ) -> anyhow::Result<Self> {
        let kind = Kind::Nginx(workers);
        let directory = scratch.join(kind.name());
        fs::create_dir(&directory)?;
        let address = free_address()?;
        let file = directory.join("nginx.conf");
        fs::write(&file, nginx_settings(workers, address, upstream, &directory))?;
        let mut command = Command::new(program);
        command.arg("-p").arg(&directory).arg("-c").arg(&file).stdin(Stdio::null());
        let mut running = Running::start("nginx", log_in(scratch, &kind.name()), &mut command)?;
        running.wait_for(|_| TcpStream::connect(address).ok())?;
        Ok(Self { kind, address, running })
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
        Ok(Self { kind, address, running })
    }

    pub(crate) fn cpu_time(&self) -> Duration {
        procfs::cpu_time(self.running.id())
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

/// nginx must be told a port. Nobody else takes this one in the moment between.
fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// A plain reverse proxy as its manual has it, with connections kept on both sides, and with the
/// headers that the gateway sets too.
fn nginx_settings(
    workers: u8,
    listen: SocketAddr,
    upstream: SocketAddr,
    directory: &Path,
) -> String {
    let at = directory.display();
    format!(
        "daemon off;
worker_processes {workers};
pid {at}/nginx.pid;
error_log {at}/error.log;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  client_body_temp_path {at}/client; proxy_temp_path {at}/proxy;
  fastcgi_temp_path {at}/fastcgi; uwsgi_temp_path {at}/uwsgi; scgi_temp_path {at}/scgi;
  keepalive_requests 1000000000;
  upstream api {{
    server {upstream};
    keepalive 128;
    keepalive_requests 1000000000;
  }}
  server {{
    listen {listen};
    location / {{
      proxy_pass http://api;
      proxy_http_version 1.1;
      proxy_set_header Connection \"\";
      proxy_set_header Host $host;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_set_header X-Forwarded-Host $host;
    }}
  }}
}}
"
    )
}
