//! TCP connections to the servers that keep Semel's records.
//!
//! After `close` the kernel keeps retransmitting unacknowledged data, for minutes if necessary. So a claim
//! that timed out may arrive long after its attempt is over, and be granted. A connection with an overdue
//! answer is therefore reset: unacknowledged data is dropped.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A connection that is closed when it is dropped, or reset if [`Ending::reset`] was called.
#[derive(Debug)]
pub struct Socket {
    stream: TcpStream,
    ending: Ending,
}

/// Decides whether a connection is closed or reset when it is dropped. Clones are of the same connection.
///
/// It also works when the socket is wrapped, as by TLS, since it takes effect when the socket itself is
/// dropped.
#[derive(Clone, Debug, Default)]
pub struct Ending {
    reset: Arc<AtomicBool>,
}

// === impl Ending ===

impl Ending {
    /// Resets the connection when it is dropped: unacknowledged data is dropped with it.
    pub fn reset(&self) {
        self.reset.store(true, Ordering::Release);
    }

    /// Whether the connection will be reset.
    pub fn is_reset(&self) -> bool {
        self.reset.load(Ordering::Acquire)
    }
}

// === impl Socket ===

impl Socket {
    /// A connection that `ending` can reset.
    pub fn new(stream: TcpStream, ending: Ending) -> Self {
        Self { stream, ending }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.ending.is_reset() {
            // If the system refuses, the socket is closed as any other.
            let _ = self.stream.set_zero_linger();
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// What the peer reads after a socket was dropped that had sent data.
    async fn end_of(ending: Ending) -> io::Result<usize> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut peer, _) = listener.accept().await.unwrap();
        let mut socket = Socket::new(stream, ending);
        socket.write_all(b"claim").await.unwrap();
        let mut received = [0; 5];
        peer.read_exact(&mut received).await.unwrap();
        drop(socket);
        peer.read(&mut received).await
    }

    #[tokio::test]
    async fn a_dropped_socket_is_closed() {
        assert_eq!(end_of(Ending::default()).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_socket_with_a_reset_ending_is_reset() {
        let ending = Ending::default();
        ending.reset();
        let error = end_of(ending).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }
}
