//! Connections to the upstream.

use std::io;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use http::header::{HeaderMap, HeaderValue};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use semel_http::RequestBody;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::io::Io;
use crate::server::ClientBody;

/// How many header fields a reply may have. What comes back has been executed, so this is no place
/// to be strict.
const HEADERS_MAX: usize = 256;

/// The body of a request as the upstream gets it.
pub(crate) type Body = RequestBody<ClientBody<Incoming>>;

/// Where requests go.
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
}

/// A connection, with the sender of its requests. Nobody drives it but whoever holds it: an
/// exchange needs no other task, and so no waking between tasks.
pub(crate) struct Wire {
    pub(crate) sender: http1::SendRequest<Body>,
    /// Dropped as soon as it ends: only its drop gives a request back that was never written.
    connection: Option<http1::Connection<TokioIo<Io>, Body>>,
    /// Since when it is idle.
    pub(crate) idle_since: Instant,
    /// How long the upstream keeps it open when it is idle, if it said so.
    pub(crate) kept_for: Option<Duration>,
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
    pub(crate) async fn connect(&self) -> Result<Box<Wire>, ConnectError> {
        let io = self.open().await?;
        let mut builder = http1::Builder::new();
        builder.max_headers(HEADERS_MAX);
        let (sender, connection) = builder.handshake(TokioIo::new(io)).await?;
        let idle_since = Instant::now();
        Ok(Box::new(Wire { sender, connection: Some(connection), idle_since, kept_for: None }))
    }

    /// Opens a stream, within the time limit.
    pub(crate) async fn open(&self) -> Result<Io, ConnectError> {
        let limit = self.connect_timeout;
        let open = async {
            let stream = TcpStream::connect((&*self.host, self.port)).await?;
            stream.set_nodelay(true)?;
            Ok(match &self.tls {
                None => Io::Plain { stream },
                Some((connector, name)) => {
                    let stream = connector.connect(name.clone(), stream).await?;
                    Io::Tls { stream: Box::new(stream.into()) }
                }
            })
        };
        timeout(limit, open).await.unwrap_or(Err(ConnectError::TimedOut(limit)))
    }
}

// === impl Wire ===

impl Wire {
    /// Moves bytes in both directions.
    pub(crate) fn drive(&mut self, context: &mut Context<'_>) {
        if let Some(connection) = &mut self.connection
            && Pin::new(connection).poll(context).is_ready()
        {
            self.connection = None;
        }
    }

    /// Takes note of how long the upstream keeps idle connections (`Keep-Alive: timeout=5`). A
    /// request that meets a connection while it is being closed is lost, and nobody knows whether
    /// it was executed; so a second is kept between.
    pub(crate) fn note_keep_alive(&mut self, headers: &HeaderMap) {
        if let Some(value) = headers.get("keep-alive").and_then(|value| value.to_str().ok()) {
            let seconds = value.split(',').find_map(|part| part.trim().strip_prefix("timeout="));
            let seconds = seconds.and_then(|seconds| seconds.parse::<u64>().ok());
            self.kept_for = seconds.map(|s| Duration::from_secs(s.saturating_sub(1)));
        }
    }

    /// Has it been idle for longer than it may be?
    pub(crate) fn is_stale(&self, idle_timeout: Duration) -> bool {
        let limit = self.kept_for.map_or(idle_timeout, |kept| kept.min(idle_timeout));
        self.idle_since.elapsed() >= limit
    }

    /// Can another request follow? hyper knows: the request is written, the response read, both
    /// sides keep the connection, and no byte is left over.
    pub(crate) fn is_reusable(&self) -> bool {
        self.connection.is_some() && self.sender.is_ready()
    }
}
