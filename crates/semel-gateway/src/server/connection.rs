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

use super::activity::{Activity, Kind, Overdue, Patience};
use super::entry::Entry;
use super::stream::ClientStream;
use super::streams::Streams;
use super::watch;
use super::workers::Place;
use crate::gateway::Current;
use crate::proxy::forward::Peer;

/// How many header fields hyper has room for.
const HEADERS_USUAL: usize = 100;

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
    peer: SocketAddr,
    place: Arc<Place>,
    activity: Arc<Activity>,
}

// === impl Shared ===

impl Shared {
    /// Serves a client until it leaves, takes too long, or the gateway goes down.
    pub(crate) async fn serve(self, stream: TcpStream, peer: SocketAddr, place: Place) {
        let terms = self.stack.load().terms.clone();
        let tls = terms.tls.clone();
        let activity = Arc::new(Activity::new(Kind::Http1, terms.patience));
        watch::watch(&activity);
        let connection = Connection { shared: self, terms, peer, place: Arc::new(place), activity };
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
            // The body itself fails, so that its request is answered.
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
        // A handshake must come as soon as the headers of a request.
        self.activity.bytes_read();
        let Some(stream) = self.begin(acceptor.accept(stream)).await? else { return Ok(()) };
        self.activity.becomes(Kind::Http1);
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let stream = ClientStream::new(stream, self.activity.clone());
        self.speak(stream, http2, true).await
    }

    async fn speak<T>(self, stream: ClientStream<T>, http2: bool, is_tls: bool) -> io::Result<()>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let entry = Entry {
            shared: self.shared.clone(),
            peer: Peer::new(self.peer.ip(), is_tls),
            activity: self.activity.clone(),
            place: self.place.clone(),
        };
        let stream = TokioIo::new(stream);
        if http2 {
            self.activity.becomes(Kind::Http2);
            let connection = self.http2().serve_connection(stream, entry);
            self.drive(connection, http2::Connection::graceful_shutdown).await
        } else {
            let connection = self.http1().serve_connection(stream, entry).with_upgrades();
            self.drive(connection, http1::UpgradeableConnection::graceful_shutdown).await
        }
    }

    /// What comes before the first request; `None` if the gateway goes down meanwhile.
    async fn begin<T>(&self, work: impl Future<Output = io::Result<T>>) -> io::Result<Option<T>> {
        let mut work = pin!(work);
        poll_fn(|context| {
            self.activity.attend(context.waker());
            if self.activity.was_called() {
                self.shared.check(&self.activity)?;
                if self.shared.draining.is_cancelled() {
                    return Poll::Ready(Ok(None));
                }
            }
            work.as_mut().poll(context).map_ok(Some)
        })
        .await
    }

    /// Serves all requests. When the gateway goes down, those that run are the last.
    async fn drive<C>(&self, connection: C, leave: impl Fn(Pin<&mut C>)) -> io::Result<()>
    where
        C: Future<Output = hyper::Result<()>>,
    {
        let mut connection = pin!(connection);
        poll_fn(|context| {
            self.activity.attend(context.waker());
            if self.activity.was_called() {
                self.shared.check(&self.activity)?;
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
        // Time limits are kept by `Activity`, which needs no timer for each request.
        builder
            .half_close(false)
            .max_buf_size(self.terms.max_header_bytes)
            .header_read_timeout(None);
        // hyper has room for its usual number on the stack; another has to be allocated.
        if self.terms.max_headers != HEADERS_USUAL {
            builder.max_headers(self.terms.max_headers);
        }
        builder
    }

    fn http2(&self) -> http2::Builder<Streams> {
        let mut builder = http2::Builder::new(Streams);
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(256)
            .max_header_list_size(u32::try_from(self.terms.max_header_bytes).unwrap_or(u32::MAX))
            .keep_alive_interval(Duration::from_secs(30))
            .keep_alive_timeout(Duration::from_secs(10));
        builder
    }
}
