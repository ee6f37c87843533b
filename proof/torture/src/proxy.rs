//! Network faults: a TCP proxy with faults that are set while it runs.
//!
//! Random values, such as the jitter and the number of bytes before a cut, come from a seed and the number of the
//! connection.

mod connection;
mod toxic;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use toxic::{Direction, Toxic};

use crate::rng::Rng;

/// A proxy on a port of its own. Its connections end when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    target: Arc<Mutex<Option<SocketAddr>>>,
    toxic: watch::Sender<Toxic>,
    struck: Arc<AtomicU64>,
    accepting: JoinHandle<()>,
}

/// What the connections of a proxy share.
#[derive(Clone)]
struct Network {
    toxics: watch::Receiver<Toxic>,
    /// How often a fault held up, slowed or ended anything.
    struck: Arc<AtomicU64>,
}

// === impl Proxy ===

impl Proxy {
    /// One that leads nowhere yet.
    pub async fn start(seed: u64) -> anyhow::Result<Self> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("a proxy's port")?;
        let address = listener.local_addr()?;
        let target = Arc::<Mutex<Option<SocketAddr>>>::default();
        let (toxic, toxics) = watch::channel(Toxic::None);
        let struck = Arc::<AtomicU64>::default();
        let network = Network { toxics, struck: struck.clone() };
        let accepting = tokio::spawn(accept(listener, target.clone(), network, seed));
        Ok(Self { address, target, toxic, struck, accepting })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where new connections lead to from now on; `None` closes them at once.
    pub fn lead_to(&self, target: Option<SocketAddr>) {
        *self.target.lock().unwrap_or_else(PoisonError::into_inner) = target;
    }

    /// Breaks the network, or mends it with [`Toxic::None`]: for connections that are there, and new ones.
    pub fn set(&self, toxic: Toxic) {
        self.toxic.send_replace(toxic);
    }

    /// How often a fault has held up, slowed or ended anything so far.
    pub fn struck(&self) -> u64 {
        self.struck.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

// === impl Network ===

impl Network {
    fn strike(&self) {
        self.struck.fetch_add(1, Ordering::Relaxed);
    }
}

async fn accept(
    listener: TcpListener,
    target: Arc<Mutex<Option<SocketAddr>>>,
    network: Network,
    seed: u64,
) {
    let mut number = 0;
    // The connections end with this task.
    let mut connections = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // Out of file descriptors, perhaps; it passes.
                let Ok((client, _)) = accepted else { continue };
                number += 1;
                let target = *target.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(target) = target else { continue };
                let rng = Rng::of(seed, "connection", number);
                connections.spawn(connection::serve(client, target, network.clone(), rng));
            }
            Some(_) = connections.join_next() => (),
        }
    }
}

#[cfg(test)]
mod tests;
