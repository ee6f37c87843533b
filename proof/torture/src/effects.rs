//! The upstream: it logs every execution, syncs the log, and then answers.
//!
//! Each execution has a nonce. The reply has the nonce, the canary of the caller's scope and the key, so that a
//! client can identify it; and bytes that are no text, repeated headers, and a cookie.

mod compared;
mod log;
mod plan;
mod served;

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::history::History;
use crate::rng::Rng;

pub(crate) use compared::compare;
pub(crate) use log::{EffectFile, EffectLog};
pub(crate) use plan::Shares;
use served::Served;

/// The upstream of all gateways. Ends when dropped; executions that run go on.
#[derive(Debug)]
pub(crate) struct Effects {
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

// === impl Effects ===

impl Effects {
    pub(crate) async fn start(
        seed: u64,
        shares: Shares,
        history: History,
        log: EffectLog,
    ) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("the upstream's port")?;
        let address = listener.local_addr()?;
        let served = Arc::new(Served::new(seed, shares, history, log));
        let accepting = tokio::spawn(accept(listener, served));
        Ok(Self { address, accepting })
    }

    /// Its address for a gateway: the path has the gateway's number, so that executions show their origin.
    pub(crate) fn url_for(&self, gateway: usize) -> String {
        format!("http://{}/{gateway}", self.address)
    }
}

impl Drop for Effects {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, served: Arc<Served>) {
    loop {
        // Out of file descriptors, perhaps; it passes.
        let Ok((stream, _)) = listener.accept().await else { continue };
        let _ = stream.set_nodelay(true);
        let served = served.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| served::answer(served.clone(), request));
            // A client that disconnected needs no answer.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

/// The secret that only replies to this scope have.
pub(crate) fn canary(seed: u64, scope: u8) -> String {
    format!("{:016x}", Rng::of(seed, "canary", u64::from(scope)).next_u64())
}

/// How a client of a scope identifies itself.
pub(crate) fn credential(scope: u8) -> String {
    format!("Bearer torture-{scope}")
}
