//! One client's connection, from its first byte to its last.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::activity::{Activity, Overdue, Patience};
use super::entry::Entry;
use super::stream::ClientStream;
use crate::gateway::Current;
use crate::proxy::forward::Peer;

/// What clients are held to. A connection keeps the terms it began with.
#[derive(Clone)]
pub(crate) struct Terms {
    pub(crate) patience: Patience,
    pub(crate) max_header_bytes: usize,
    pub(crate) max_headers: usize,
    pub(crate) tls: Option<TlsAcceptor>,
}

/// What all connections share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) stack: Arc<Current>,
    /// Set when the gateway goes down: requests that run are answered, then the connection closes.
    pub(crate) draining: CancellationToken,
    /// Set when the time for that is over.
    pub(crate) closing: CancellationToken,
}

/// One connection.
struct Connection {
    shared: Shared,
    terms: Terms,
}

// === impl Shared ===

impl Shared {
    /// Serves a client until it leaves, takes too long, or the gateway goes down.
    pub(crate) async fn serve(self, stream: TcpStream, peer: SocketAddr) {
        let terms = self.stack.load().terms.clone();
        let tls = terms.tls.clone();
        let connection = Connection { shared: self, terms };
        let served = match tls {
            None => connection.serve_plain(stream, peer).await,
            Some(acceptor) => connection.serve_tls(acceptor, stream, peer).await,
        };
        if let Err(error) = served {
            tracing::debug!(%error, "a connection ended");
        }
    }
}

// === impl Connection ===

impl Connection {
    async fn serve_plain(self, stream: TcpStream, peer: SocketAddr) -> io::Result<()> {
        let activity = Arc::new(Activity::new());
        let mut stream = ClientStream::new(stream, activity.clone());
        let http2 = tokio::select! {
            http2 = stream.speaks_http2() => http2?,
            overdue = activity.overdue(self.terms.patience) => return Err(cut(overdue)),
            () = self.shared.draining.cancelled() => return Ok(()),
        };
        self.speak(stream, http2, Peer::new(peer.ip(), false), activity).await
    }

    async fn serve_tls(
        self,
        acceptor: TlsAcceptor,
        stream: TcpStream,
        peer: SocketAddr,
    ) -> io::Result<()> {
        let handshake = timeout(self.terms.patience.header, acceptor.accept(stream));
        let stream = handshake.await.map_err(|_| cut(Overdue::Header))??;
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let activity = Arc::new(Activity::new());
        let stream = ClientStream::new(stream, activity.clone());
        self.speak(stream, http2, Peer::new(peer.ip(), true), activity).await
    }

    async fn speak<T>(
        self,
        stream: ClientStream<T>,
        http2: bool,
        peer: Peer,
        activity: Arc<Activity>,
    ) -> io::Result<()>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (stack, closing) = (self.shared.stack.clone(), self.shared.closing.clone());
        let entry = Entry { stack, peer, activity: activity.clone(), closing };
        let stream = TokioIo::new(stream);
        if http2 {
            let connection = self.http2().serve_connection(stream, entry);
            let mut connection = pin!(connection);
            tokio::select! {
                ended = connection.as_mut() => return ended.map_err(io::Error::other),
                overdue = activity.overdue(self.terms.patience.lenient()) => return Err(cut(overdue)),
                () = self.shared.draining.cancelled() => connection.as_mut().graceful_shutdown(),
            }
            self.finish(connection, &activity).await
        } else {
            let connection = self.http1().serve_connection(stream, entry).with_upgrades();
            let mut connection = pin!(connection);
            tokio::select! {
                ended = connection.as_mut() => return ended.map_err(io::Error::other),
                overdue = activity.overdue(self.terms.patience) => return Err(cut(overdue)),
                () = self.shared.draining.cancelled() => connection.as_mut().graceful_shutdown(),
            }
            self.finish(connection, &activity).await
        }
    }

    /// Answers what runs, while the gateway goes down.
    async fn finish(
        &self,
        connection: impl Future<Output = hyper::Result<()>>,
        activity: &Activity,
    ) -> io::Result<()> {
        tokio::select! {
            ended = connection => ended.map_err(io::Error::other),
            overdue = activity.overdue(self.terms.patience) => Err(cut(overdue)),
            () = self.shared.closing.cancelled() => Err(io::Error::other("the gateway went down")),
        }
    }

    fn http1(&self) -> http1::Builder {
        let mut builder = http1::Builder::new();
        // Time limits are kept by `Activity`, which needs no timer for each request.
        builder
            .half_close(false)
            .max_buf_size(self.terms.max_header_bytes)
            .max_headers(self.terms.max_headers)
            .header_read_timeout(None);
        builder
    }

    fn http2(&self) -> http2::Builder<TokioExecutor> {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(256)
            .max_header_list_size(u32::try_from(self.terms.max_header_bytes).unwrap_or(u32::MAX))
            .keep_alive_interval(Duration::from_secs(30))
            .keep_alive_timeout(Duration::from_secs(10));
        builder
    }
}

// === impl Patience ===

impl Patience {
    /// HTTP/2 clients exchange frames between requests, so only their idling counts.
    const fn lenient(self) -> Self {
        Self { header: self.idle, ..self }
    }
}

fn cut(overdue: Overdue) -> io::Error {
    let what = match overdue {
        Overdue::Header => "headers took too long",
        Overdue::Idle => "it was idle for too long",
        Overdue::Reading => "a body took too long",
        Overdue::Writing => "the client takes too long to read",
    };
    io::Error::new(io::ErrorKind::TimedOut, what)
}
