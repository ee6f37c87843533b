//! Accepting connections of clients.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_log::Throttle;
use semel_store::is_exhaustion;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::Level;

use super::Workers;
use crate::failure::{Busy, Failure};
use crate::limit::Limit;

/// How long a rejected client may take to read the reason.
const REJECT_LINGER: Duration = Duration::from_secs(1);

/// The pause after `accept` has failed.
const PAUSE: Duration = Duration::from_millis(50);

/// The accept backlog; the system may allow less. On overflow the kernel drops the SYN, and the client sends it again
/// after a second.
const ACCEPT_BACKLOG: u32 = 4_096;

/// Begins to listen.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(ACCEPT_BACKLOG)
}

/// Accepts connections of clients, and rejects those over the limit.
#[derive(Debug)]
pub(crate) struct Acceptor {
    max: usize,
    permits: Arc<Semaphore>,
    rejections: Arc<Semaphore>,
    /// The response to a rejected connection.
    rejection: Bytes,
    full: Throttle,
    failed: Throttle,
}

// === impl Acceptor ===

impl Acceptor {
    /// At most `max` connections are open at a time, and at most `rejections` are rejected with a response at a time.
    pub(crate) fn new(max: usize, rejections: usize) -> Self {
        Self {
            max,
            permits: Arc::new(Semaphore::new(max.min(Semaphore::MAX_PERMITS))),
            rejections: Arc::new(Semaphore::new(rejections)),
            rejection: rejection(),
            full: Throttle::of("too many connections", Level::WARN),
            failed: Throttle::of("no connection can be accepted now", Level::WARN),
        }
    }

    /// Accepts connections until `draining`.
    pub(crate) async fn accept(
        self,
        listener: TcpListener,
        workers: &Workers,
        draining: CancellationToken,
    ) {
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = draining.cancelled() => return,
            };
            match accepted {
                Ok((stream, peer)) => self.admit(stream, peer, workers),
                Err(error) => {
                    if is_exhaustion(&error) {
                        Limit::Descriptors.reached();
                    }
                    self.failed.line(|left_out| {
                        tracing::warn!(%error, left_out, "no connection can be accepted now");
                    });
                    // Most often the file descriptors are used up: other connections may close soon.
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn admit(&self, stream: TcpStream, peer: SocketAddr, workers: &Workers) {
        let Ok(permit) = self.permits.clone().try_acquire_owned() else {
            Limit::Connections.reached();
            return self.reject(stream);
        };
        match prepare(stream) {
            Ok(stream) => workers.hand_over(stream, peer, permit),
            Err(error) => tracing::debug!(%error, "a connection was closed before it was served"),
        }
    }

    /// Sends the rejection in a task of its own. What the client sends is read for a while: closing a socket with
    /// unread bytes would make the system reset it, and the response be lost.
    fn reject(&self, mut stream: TcpStream) {
        let max = self.max;
        self.full.line(|left_out| tracing::warn!(max, left_out, "too many connections"));
        let Ok(permit) = self.rejections.clone().try_acquire_owned() else { return };
        let rejection = self.rejection.clone();
        tokio::spawn(async move {
            let rejected = async {
                stream.write_all(&rejection).await?;
                stream.shutdown().await?;
                tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
            };
            // The client need not take the response.
            let _ = timeout(REJECT_LINGER, rejected).await;
            drop(permit);
        });
    }
}

/// The response to a connection over the limit.
fn rejection() -> Bytes {
    let (head, body) = Failure::Busy(Busy::Connections).response::<Bytes>(true).into_parts();
    let mut bytes = format!("HTTP/1.1 {}\r\n", head.status).into_bytes();
    for (name, value) in &head.headers {
        bytes.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    let rest = format!("connection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    [&bytes[..], rest.as_bytes(), &body].concat().into()
}

/// Takes a stream from this thread's reactor, for another's.
fn prepare(stream: TcpStream) -> io::Result<std::net::TcpStream> {
    stream.set_nodelay(true)?;
    stream.into_std()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many connections as the system allows, and more than the common 128, can wait to be accepted.
    #[tokio::test]
    async fn the_accept_backlog_is_large() {
        let listener = listen("127.0.0.1:0".parse().expect("an address")).expect("it listens");
        let address = listener.local_addr().expect("its address");
        let allowed = std::fs::read_to_string("/proc/sys/net/core/somaxconn").expect("Linux");
        let allowed: usize = allowed.trim().parse().expect("a number");
        let mut waiting = Vec::new();
        for number in 0..allowed.min(400) {
            // A SYN that was dropped is sent again after a second, and dropped again.
            let connected = timeout(Duration::from_secs(5), TcpStream::connect(address)).await;
            waiting.push(connected.unwrap_or_else(|_| panic!("number {number} has no room")));
        }
        assert!(waiting.iter().all(Result::is_ok), "{waiting:?}");
    }

    #[test]
    fn the_response_to_a_rejected_connection_is_well_formed() {
        let bytes = rejection();
        let text = std::str::from_utf8(&bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert_eq!(
            head,
            "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\n\
             cache-control: no-store\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 246"
        );
        assert_eq!(body.len(), 246);
        assert_eq!(
            body,
            "{\"type\":\"https://semel.dev/problems/too_busy\",\"title\":\"Too much is running\",\
             \"status\":503,\"detail\":\"too many connections; nothing was executed\",\
             \"error_code\":\"too_busy\",\
             \"error_message\":\"too many connections; nothing was executed\",\"retry_safe\":true}"
        );
    }
}
