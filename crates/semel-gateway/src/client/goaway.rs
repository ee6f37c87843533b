//! The reason for closing an HTTP/2 connection: hyper closes one without a way to give a code.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// A GOAWAY frame (RFC 9113, section 6.8) with the code `ENHANCE_YOUR_CALM`. Any stream may have been acted upon.
const GOAWAY: [u8; 17] = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 11];
/// How long sending it may take.
const GOAWAY_TIMEOUT: Duration = Duration::from_secs(1);

/// A stream that is returned when its user drops it.
pub(crate) struct BorrowedStream<S> {
    stream: Option<S>,
    back: Option<oneshot::Sender<S>>,
    /// Whether the last write was partial, so that the next bytes would be read as the rest of a frame.
    is_midway: bool,
}

/// The receiving side of a borrowed stream.
pub(crate) struct ReturnedStream<S>(oneshot::Receiver<S>);

/// Lends a stream.
pub(crate) fn lend<S>(stream: S) -> (BorrowedStream<S>, ReturnedStream<S>) {
    let (back, returned) = oneshot::channel();
    (
        BorrowedStream { stream: Some(stream), back: Some(back), is_midway: false },
        ReturnedStream(returned),
    )
}

// === impl ReturnedStream ===

impl<S: AsyncRead + AsyncWrite + Unpin> ReturnedStream<S> {
    /// Sends GOAWAY if the stream is at the end of a frame, and closes it.
    pub(crate) async fn send_goaway(mut self) {
        let Ok(mut stream) = self.0.try_recv() else { return };
        let goaway = async {
            stream.write_all(&GOAWAY).await?;
            stream.shutdown().await
        };
        // The client need not read it.
        let _ = timeout(GOAWAY_TIMEOUT, goaway).await;
    }
}

// === impl BorrowedStream ===

impl<S> BorrowedStream<S> {
    /// Records whether all of the offered bytes were written.
    fn wrote(&mut self, offered: usize, poll: &Poll<io::Result<usize>>) {
        match poll {
            Poll::Ready(Ok(written)) => self.is_midway = *written < offered,
            Poll::Ready(Err(_)) => self.is_midway = true,
            // The pending bytes may be the rest of a frame.
            Poll::Pending => {}
        }
    }
}

impl<S> Drop for BorrowedStream<S> {
    fn drop(&mut self) {
        if let (Some(stream), Some(back), false) =
            (self.stream.take(), self.back.take(), self.is_midway)
        {
            // It is closed if the receiver is gone.
            let _ = back.send(stream);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BorrowedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Some(stream) => Pin::new(stream).poll_read(context, buffer),
            None => Poll::Ready(Ok(())),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BorrowedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Some(stream) = &mut self.stream else { return Poll::Ready(Ok(0)) };
        let poll = Pin::new(stream).poll_write(context, bytes);
        self.wrote(bytes.len(), &poll);
        poll
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Some(stream) = &mut self.stream else { return Poll::Ready(Ok(0)) };
        let poll = Pin::new(stream).poll_write_vectored(context, slices);
        self.wrote(slices.iter().map(|slice| slice.len()).sum(), &poll);
        poll
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Some(stream) => Pin::new(stream).poll_flush(context),
            None => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Some(stream) => Pin::new(stream).poll_shutdown(context),
            None => Poll::Ready(Ok(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn a_stream_returned_at_the_end_of_a_frame_gets_a_goaway() {
        let (ours, mut theirs) = tokio::io::duplex(64);
        let (mut lent, returned) = lend(ours);
        lent.write_all(b"frames").await.unwrap();
        drop(lent);
        returned.send_goaway().await;
        let mut received = Vec::new();
        theirs.read_to_end(&mut received).await.unwrap();
        assert_eq!(received, [&b"frames"[..], &GOAWAY].concat());
    }

    /// A GOAWAY there would be read as the rest of the frame.
    #[tokio::test]
    async fn a_stream_in_the_middle_of_a_frame_is_only_closed() {
        let (ours, mut theirs) = tokio::io::duplex(4);
        let (mut lent, returned) = lend(ours);
        assert_eq!(lent.write(b"frames").await.unwrap(), 4);
        drop(lent);
        returned.send_goaway().await;
        let mut received = Vec::new();
        theirs.read_to_end(&mut received).await.unwrap();
        assert_eq!(received, b"fram");
    }
}
