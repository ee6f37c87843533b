//! A stream that may be encrypted.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

pin_project! {
    /// A stream, with or without TLS.
    #[project = MaybeTlsProjection]
    pub(crate) enum MaybeTls {
        Plain { #[pin] stream: TcpStream },
        // Boxed: its buffers are large, and most upstreams are on the same network, without TLS.
        Tls { stream: Box<TlsStream<TcpStream>> },
    }
}

/// The same call on either stream.
macro_rules! either {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.project() {
            MaybeTlsProjection::Plain { stream: $stream } => $call,
            MaybeTlsProjection::Tls { stream } => {
                let $stream = Pin::new(&mut **stream);
                $call
            }
        }
    };
}

// === impl MaybeTls ===

impl AsyncRead for MaybeTls {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_read(context, buffer))
    }
}

impl AsyncWrite for MaybeTls {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        either!(self, stream => stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self, stream => stream.poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain { stream } => stream.is_write_vectored(),
            Self::Tls { stream } => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_shutdown(context))
    }
}
