//! One client's connection, from its first byte to its last.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::entry::Entry;
use crate::client::streams::Streams;
use crate::client::{
    Activity, ActivityKind, ClientStream, ConnectionPermit, ConnectionSettings, Leftovers, Load,
    Overdue, TooManyResets, goaway, watch,
};
use crate::limit::Limit;
use crate::pipeline::CurrentPipeline;
use crate::proxy::forward::Peer;
use crate::proxy::permits::UpstreamPermits;

/// The number of header fields that hyper has room for by default.
const HEADERS_DEFAULT: usize = 100;
/// How many streams of an HTTP/2 connection may be open at once.
const STREAMS_MAX: u32 = 256;

/// The state that all connections share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) pipeline: Arc<CurrentPipeline>,
    pub(crate) leftovers: Arc<Leftovers>,
    pub(crate) permits: Arc<UpstreamPermits>,
    /// Cancelled at shutdown: requests in flight are completed, then the connection closes.
    pub(crate) draining: CancellationToken,
    /// Cancelled when the time for that is over.
    pub(crate) closing: CancellationToken,
}

/// One connection.
struct Connection {
    shared: Shared,
    settings: ConnectionSettings,
    peer: SocketAddr,
    permit: Arc<ConnectionPermit>,
    activity: Arc<Activity>,
}

// === impl Shared ===

impl Shared {
    /// Serves a connection until it is closed, misses a deadline, or the gateway shuts down.
    pub(crate) async fn serve(self, stream: TcpStream, peer: SocketAddr, permit: ConnectionPermit) {
        let settings = self.pipeline.load().settings.clone();
        let tls = settings.tls.clone();
        let activity = Arc::new(Activity::new(ActivityKind::Http1, settings.timeouts));
        watch::watch(&activity);
        let connection =
            Connection { shared: self, settings, peer, permit: Arc::new(permit), activity };
        let served = match tls {
            None => connection.serve_plain(stream).await,
            Some(acceptor) => connection.serve_tls(acceptor, stream).await,
        };
        if let Err(error) = served {
            tracing::debug!(%error, "a connection ended");
        }
    }

    fn check(&self, activity: &Activity) -> io::Result<()> {
        if self.closing.is_cancelled() {
            return Err(io::Error::other("the gateway went down"));
        }
        match activity.overdue(watch::now()) {
            // The body itself fails, so that its request gets a response.
            None | Some(Overdue::Reading) => Ok(()),
            Some(overdue) => Err(overdue.into()),
        }
    }
}

// === impl Connection ===

impl Connection {
    async fn serve_plain(self, stream: TcpStream) -> io::Result<()> {
        let mut stream = ClientStream::new(stream, self.activity.clone());
        let Some(http2) = self.begin(stream.speaks_http2()).await? else { return Ok(()) };
        self.speak(stream, http2, false).await
    }

    async fn serve_tls(self, acceptor: TlsAcceptor, stream: TcpStream) -> io::Result<()> {
        // A handshake has the deadline of a request's headers.
        self.activity.bytes_read();
        let Some(stream) = self.begin(acceptor.accept(stream)).await? else { return Ok(()) };
        self.activity.becomes(ActivityKind::Http1);
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let stream = ClientStream::new(stream, self.activity.clone());
        self.speak(stream, http2, true).await
    }

    async fn speak<T>(self, stream: ClientStream<T>, http2: bool, is_tls: bool) -> io::Result<()>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let limits = if http2 { self.settings.load } else { self.settings.load.one_at_a_time() };
        let load = self.shared.leftovers.load_for(self.peer.ip(), limits);
        let entry = Entry {
            shared: self.shared.clone(),
            peer: Peer::new(self.peer.ip(), is_tls),
            activity: self.activity.clone(),
            permit: self.permit.clone(),
            load: load.clone(),
        };
        if http2 {
            return self.speak_http2(stream, entry, &load).await;
        }
        let connection = self.http1().serve_connection(TokioIo::new(stream), entry).with_upgrades();
        self.drive(connection, http1::UpgradeableConnection::graceful_shutdown, &load).await
    }

    async fn speak_http2<T>(
        &self,
        stream: ClientStream<T>,
        entry: Entry,
        load: &Arc<Load>,
    ) -> io::Result<()>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        self.activity.becomes(ActivityKind::Http2);
        let (stream, returned) = goaway::lend(stream);
        let connection = self.http2().serve_connection(TokioIo::new(stream), entry);
        let leave = http2::Connection::graceful_shutdown;
        let served = self.drive(connection, leave, load).await;
        if served.as_ref().is_err_and(TooManyResets::is) {
            Limit::ResetsPerConnection.reached();
            self.shared.leftovers.log_closed(self.peer.ip(), load.limits().resets);
            // Received bytes are read, so that the client can read the GOAWAY.
            self.activity.linger();
            returned.send_goaway().await;
        }
        served
    }

    /// Runs a step before the first request; `None` if the gateway drains meanwhile.
    async fn begin<T>(&self, work: impl Future<Output = io::Result<T>>) -> io::Result<Option<T>> {
        let mut work = pin!(work);
        poll_fn(|context| {
            self.activity.register_waker(context.waker());
            if self.activity.take_woken() {
                self.shared.check(&self.activity)?;
                if self.shared.draining.is_cancelled() {
                    return Poll::Ready(Ok(None));
                }
            }
            work.as_mut().poll(context).map_ok(Some)
        })
        .await
    }

    /// Serves all requests. When the gateway drains, those in flight are the last.
    async fn drive<C>(
        &self,
        connection: C,
        leave: impl Fn(Pin<&mut C>),
        load: &Arc<Load>,
    ) -> io::Result<()>
    where
        C: Future<Output = hyper::Result<()>>,
    {
        // Dropped after the connection.
        let _leaving = self.shared.leftovers.leaving(self.peer.ip(), load);
        let mut connection = pin!(connection);
        poll_fn(|context| {
            self.activity.register_waker(context.waker());
            if self.activity.take_woken() {
                self.shared.check(&self.activity)?;
                if load.is_too_much() {
                    return Poll::Ready(Err(io::Error::other(TooManyResets)));
                }
                if self.shared.draining.is_cancelled() {
                    leave(connection.as_mut());
                }
            }
            connection.as_mut().poll(context).map_err(io::Error::other)
        })
        .await
    }

    fn http1(&self) -> http1::Builder {
        let mut builder = http1::Builder::new();
        // `Activity` has the time limits, and needs no timer for each request.
        builder
            .half_close(false)
            .max_buf_size(self.settings.max_header_bytes)
            .header_read_timeout(None);
        // hyper has room for its default number on the stack; another is allocated on the heap.
        if self.settings.max_headers != HEADERS_DEFAULT {
            builder.max_headers(self.settings.max_headers);
        }
        builder
    }

    fn http2(&self) -> http2::Builder<Streams> {
        let mut builder = http2::Builder::new(Streams);
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX.min(self.settings.load.in_work))
            .max_header_list_size(u32::try_from(self.settings.max_header_bytes).unwrap_or(u32::MAX))
            .keep_alive_interval(Duration::from_secs(30))
            .keep_alive_timeout(Duration::from_secs(10));
        builder
    }
}
