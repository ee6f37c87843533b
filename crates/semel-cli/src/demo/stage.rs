//! Everything the demo needs, set up: directory, addresses, payments API, gateway.

use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use tokio::net::TcpListener;

use super::payments::{Behaviour, Payments};
use super::process::{Plan, Process};

/// Short leases, so that the wait for a dead gateway's is short; and duplicates wait, so that
/// all fifty get the answer.
const CONFIGURATION: &str = r#"# Written by `semel demo`. Addresses, upstream and store come from its command line.

[policy]
# A duplicate that comes while the first attempt runs waits for its answer.
in_flight = "wait"
wait_timeout = "20s"
# If the gateway dies during a charge, a retry executes it again when the lease has run out.
lease = "5s"
on_abandoned = "reexecute"

[[route]]
match = "POST /v1/charges"

[[route]]
match = "POST /v1/charges/{id}/refunds"

[limits]
shutdown_timeout = "5s"
"#;

/// The stage of the demo.
pub(super) struct Stage {
    pub(super) payments: Payments,
    pub(super) plan: Plan,
    pub(super) gateway: Process,
    /// Sets the keys of this run apart from those that the store knows already.
    pub(super) run: String,
}

// === impl Stage ===

impl Stage {
    pub(super) async fn set(
        directory: &Path,
        listen: Option<SocketAddr>,
        behaviour: Behaviour,
    ) -> anyhow::Result<Self> {
        let directory = prepare(directory)?;
        let listen = listen.unwrap_or_else(|| free_or_any(local(8080)));
        // With port 0 all ports are free ones.
        let (admin, upstream) = match listen.port() {
            0 => (local(0), local(0)),
            port => (free_or_any(local(port.saturating_add(1))), free_or_any(local(3000))),
        };
        let payments = Payments::new(behaviour);
        let listener = TcpListener::bind(upstream).await.context("no port for the payments API")?;
        let upstream = payments.serve(listener)?;
        let executable = std::env::current_exe().context("the path of this program is unknown")?;
        let mut plan = Plan { executable, directory, listen, admin, upstream };
        let gateway = Process::start(&plan).await?;
        // It comes back to where it was.
        (plan.listen, plan.admin) = (gateway.listen, gateway.admin);
        let run = format!("{:04x}", rand::random::<u16>());
        Ok(Self { payments, plan, gateway, run })
    }

    /// Restarts the gateway at the same addresses.
    pub(super) async fn restart(&mut self) -> anyhow::Result<()> {
        self.gateway = Process::start(&self.plan).await?;
        Ok(())
    }

    /// Where clients of this machine find the gateway.
    pub(super) fn gateway_address(&self) -> SocketAddr {
        let listen = self.plan.listen;
        if listen.ip().is_unspecified() { local(listen.port()) } else { listen }
    }

    pub(super) async fn close(self) {
        self.gateway.stop().await;
    }
}

/// Makes the directory and writes the gateway's configuration, but over nothing of the user's.
fn prepare(directory: &Path) -> anyhow::Result<PathBuf> {
    let cannot = |what: &str, path: &Path| format!("cannot {what} {}", path.display());
    std::fs::create_dir_all(directory).with_context(|| cannot("make", directory))?;
    let directory = directory.canonicalize().with_context(|| cannot("find", directory))?;
    let path = directory.join("gateway.toml");
    let ours = CONFIGURATION.lines().next();
    match std::fs::read_to_string(&path) {
        Ok(text) if text.lines().next() != ours => bail!(
            "{} was not written by the demo; choose another --directory, or move it away",
            path.display()
        ),
        _ => std::fs::write(&path, CONFIGURATION).with_context(|| cannot("write", &path))?,
    }
    // The log of this run, not of all there ever were.
    let log = directory.join("gateway.log");
    std::fs::write(&log, "").with_context(|| cannot("write", &log))?;
    Ok(directory)
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// The address, or a free port on it if that one is taken.
fn free_or_any(address: SocketAddr) -> SocketAddr {
    match StdListener::bind(address) {
        Ok(_) => address,
        Err(_) => SocketAddr::new(address.ip(), 0),
    }
}
