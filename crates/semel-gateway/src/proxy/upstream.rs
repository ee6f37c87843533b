//! Connections to the upstream.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use semel_http::RequestBody;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::connect_window::ProbationPermit;
use super::permits::{Opening, UpstreamPermit, UpstreamPermits};
use crate::client::ClientBody;
use crate::tls::MaybeTls;

/// How many header fields a reply may have. A generous limit: the request of a reply has been executed.
const HEADERS_MAX: usize = 256;

/// No text, which would be read as a name for every reply.
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

/// The body of a request to the upstream.
pub(crate) type Body = RequestBody<ClientBody<Incoming>>;

/// The upstream, and how to connect to it.
#[derive(Clone)]
pub(crate) struct Upstream {
    pub(crate) host: Box<str>,
    pub(crate) port: u16,
    /// `Host` for the upstream.
    pub(crate) authority: HeaderValue,
    /// The path before every path, without a slash at its end.
    pub(crate) base: Box<str>,
    pub(crate) tls: Option<(TlsConnector, ServerName<'static>)>,
    pub(crate) connect_timeout: Duration,
    /// Limits the number of connections.
    pub(crate) permits: Arc<UpstreamPermits>,
}

/// A connection to the upstream, with the sender of its requests. Its holder polls it: an exchange needs no second
/// task, and so no wake-ups between tasks.
pub(crate) struct UpstreamConnection {
    pub(crate) sender: http1::SendRequest<Body>,
    /// Moves the bytes. Dropped as soon as it ends: only its drop gives a request back that was never written.
    driver: Option<http1::Connection<TokioIo<MaybeTls>, Body>>,
    /// Since when it is idle.
    pub(crate) idle_since: Instant,
    /// How long the upstream keeps it open when it is idle, if known.
    pub(crate) kept_for: Option<Duration>,
    /// Held until the first reply.
    pub(crate) probation: Option<ProbationPermit>,
    pub(crate) permit: UpstreamPermit,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error("connecting took longer than {0:?}")]
    TimedOut(Duration),
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Http(#[from] hyper::Error),
}

// === impl Upstream ===

impl Upstream {
    /// Opens a connection, within the time limit.
    pub(crate) async fn connect(
        &self,
        opening: Opening,
    ) -> Result<Box<UpstreamConnection>, ConnectError> {
        let io = self.open().await?;
        let mut builder = http1::Builder::new();
        builder.max_headers(HEADERS_MAX);
        let (sender, driver) = builder.handshake(TokioIo::new(io)).await?;
        let idle_since = Instant::now();
        let Opening { permit, probation } = opening;
        let (driver, probation, kept_for) = (Some(driver), Some(probation), None);
        Ok(Box::new(UpstreamConnection { sender, driver, idle_since, kept_for, probation, permit }))
    }

    /// Opens a stream, within the time limit.
    pub(crate) async fn open(&self) -> Result<MaybeTls, ConnectError> {
        let limit = self.connect_timeout;
        let open = async {
            let stream = TcpStream::connect((&*self.host, self.port)).await?;
            stream.set_nodelay(true)?;
            Ok(match &self.tls {
                None => MaybeTls::Plain { stream },
                Some((connector, name)) => {
                    let stream = connector.connect(name.clone(), stream).await?;
                    MaybeTls::Tls { stream: Box::new(stream.into()) }
                }
            })
        };
        timeout(limit, open).await.unwrap_or(Err(ConnectError::TimedOut(limit)))
    }
}

// === impl UpstreamConnection ===

impl UpstreamConnection {
    /// Transfers bytes in both directions.
    pub(crate) fn drive(&mut self, context: &mut Context<'_>) {
        if let Some(driver) = &mut self.driver
            && Pin::new(driver).poll(context).is_ready()
        {
            self.driver = None;
        }
    }

    /// Records how long the upstream keeps idle connections (`Keep-Alive: timeout=5`). A request that is sent while the
    /// connection is being closed is lost with an unknown outcome; so a second is subtracted.
    pub(crate) fn note_keep_alive(&mut self, headers: &HeaderMap) {
        if let Some(value) = headers.get(KEEP_ALIVE).and_then(|value| value.to_str().ok()) {
            let seconds = value.split(',').find_map(|part| part.trim().strip_prefix("timeout="));
            let seconds = seconds.and_then(|seconds| seconds.parse::<u64>().ok());
            self.kept_for = seconds.map(|s| Duration::from_secs(s.saturating_sub(1)));
        }
    }

    /// Whether it has been idle for too long.
    pub(crate) fn is_stale(&self, idle_timeout: Duration) -> bool {
        let limit = self.kept_for.map_or(idle_timeout, |kept| kept.min(idle_timeout));
        self.idle_since.elapsed() >= limit
    }

    /// Whether another request can be sent. hyper reports that the request is written, the response read, the
    /// connection kept by both sides, and no byte left over.
    pub(crate) fn is_reusable(&self) -> bool {
        self.driver.is_some() && self.sender.is_ready()
    }
}
