//! The stream of one client. It records the client's activity, and is closed so that the client can still read the last
//! response.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use semel_core::planted::{Bug, planted};

use super::activity::Activity;

/// The first bytes of a client that uses HTTP/2 without negotiation.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// How long the bytes of a rejected client are read and discarded.
const LINGER: Duration = Duration::from_secs(5);

/// A client's stream.
pub(crate) struct ClientStream<T> {
    stream: T,
    activity: Arc<Activity>,
    /// The bytes that were read to detect the protocol, and how many of them hyper has read.
    start: [u8; PREFACE.len()],
    given: usize,
    filled: usize,
    closing: Closing,
}

enum Closing {
    No,
    /// Our side is closed; received bytes are discarded until the timer ends.
    Lingering(Pin<Box<Sleep>>),
}

// === impl ClientStream ===

impl<T: AsyncRead + AsyncWrite + Unpin> ClientStream<T> {
    pub(crate) fn new(stream: T, activity: Arc<Activity>) -> Self {
        let start = [0; PREFACE.len()];
        Self { stream, activity, start, given: 0, filled: 0, closing: Closing::No }
    }

    /// Detects HTTP/2 with prior knowledge. Reads no more than necessary.
    pub(crate) async fn speaks_http2(&mut self) -> io::Result<bool> {
        while self.filled < PREFACE.len() && PREFACE.starts_with(&self.start[..self.filled]) {
            let read = self.stream.read(&mut self.start[self.filled..]).await?;
            if read == 0 {
                break;
            }
            self.activity.bytes_read();
            self.filled += read;
        }
        Ok(&self.start == PREFACE)
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for ClientStream<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.given < this.filled {
            let len = buffer.remaining().min(this.filled - this.given);
            buffer.put_slice(&this.start[this.given..this.given + len]);
            this.given += len;
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
        if buffer.filled().len() > before {
            this.activity.bytes_read();
        }
        if planted(Bug::BodyNotDrained) {
            forget_body(&mut buffer.filled_mut()[before..]);
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for ClientStream<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let poll = Pin::new(&mut this.stream).poll_write(context, bytes);
        this.activity.wrote(poll.is_ready());
        poll
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let poll = Pin::new(&mut this.stream).poll_write_vectored(context, slices);
        this.activity.wrote(poll.is_ready());
        poll
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let poll = Pin::new(&mut this.stream).poll_flush(context);
        this.activity.flushed(poll.is_ready());
        poll
    }

    /// Closing a socket with unread bytes makes the system reset the connection, and the client may lose the response.
    /// So our side is closed first, and received bytes are read for a while.
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if matches!(this.closing, Closing::No) {
            ready!(Pin::new(&mut this.stream).poll_shutdown(context))?;
            if !this.activity.lingers() {
                return Poll::Ready(Ok(()));
            }
            this.closing = Closing::Lingering(Box::pin(sleep(LINGER)));
        }
        let Closing::Lingering(deadline) = &mut this.closing else {
            return Poll::Ready(Ok(()));
        };
        loop {
            if deadline.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(()));
            }
            let mut scratch = [0; 8 * 1024];
            let mut scratch = ReadBuf::new(&mut scratch);
            match ready!(Pin::new(&mut this.stream).poll_read(context, &mut scratch)) {
                Ok(()) if !scratch.filled().is_empty() => {}
                // The client has closed its side, or the connection is lost.
                Ok(()) | Err(_) => return Poll::Ready(Ok(())),
            }
        }
    }
}

/// Only for [`Bug`]: a request that will be refused for want of a key has no body, it seems, and so what
/// follows its head is the next request. To leave a body unread is not enough: hyper would close the
/// connection.
fn forget_body(head: &mut [u8]) {
    let find = |name: &[u8]| head.windows(name.len()).position(|part| part == name);
    if find(b"idempotency-key").is_none()
        && let Some(at) = find(b"content-length")
    {
        head[at..][..7].copy_from_slice(b"ignored");
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;
    use crate::client::activity::{ActivityKind, ClientTimeouts};

    fn pair() -> (tokio::io::DuplexStream, ClientStream<tokio::io::DuplexStream>) {
        let (client, server) = tokio::io::duplex(64);
        let activity = Arc::new(Activity::new(ActivityKind::Http1, ClientTimeouts::DEFAULT));
        (client, ClientStream::new(server, activity))
    }

    async fn speaks_http2(sent: &[u8]) -> (bool, Vec<u8>) {
        let (mut client, mut stream) = pair();
        client.write_all(sent).await.unwrap();
        client.shutdown().await.unwrap();
        let http2 = stream.speaks_http2().await.unwrap();
        let mut read = Vec::new();
        stream.read_to_end(&mut read).await.unwrap();
        (http2, read)
    }

    #[tokio::test]
    async fn the_protocol_is_detected_without_losing_bytes() {
        for sent in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", b"P", b""]
        {
            assert_eq!(speaks_http2(sent).await, (false, sent.to_vec()));
        }
        let sent = [PREFACE, &b"frames"[..]].concat();
        assert_eq!(speaks_http2(&sent).await, (true, sent));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_still_sends_can_read_the_response() {
        let (mut client, mut stream) = pair();
        stream.activity.linger();
        let close = tokio::spawn(async move { stream.shutdown().await });
        // More than the stream buffers, so that it must be read.
        client.write_all(&[0; 1_000]).await.unwrap();
        assert!(!close.is_finished());
        drop(client);
        close.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_lingering_close_has_a_time_limit() {
        let (client, mut stream) = pair();
        stream.activity.linger();
        stream.shutdown().await.unwrap();
        drop(client);
    }
}
