//! A client that speaks HTTP/2, with or without TLS.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response, request};
use http_body_util::{BodyExt as _, Either, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::{Authority, LIMIT};

#[derive(Clone)]
pub(crate) struct Http2(SendRequest<Upload>);

type Upload = Either<Full<Bytes>, Stalled>;

/// A body that begins, and then stops.
pub(crate) struct Stalled(Option<Bytes>);

// === impl Http2 ===

impl Http2 {
    /// Without having been asked.
    pub(crate) async fn plain(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).await.unwrap(), None).await
    }

    /// One that takes so many bytes of each answer before it has read any.
    pub(crate) async fn with_window(address: SocketAddr, window: u32) -> Self {
        Self::over(TcpStream::connect(address).await.unwrap(), Some(window)).await
    }

    /// As agreed while TLS began.
    pub(crate) async fn secure(address: SocketAddr, authority: &Authority) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let connector = TlsConnector::from(authority.client_config(&[b"h2", b"http/1.1"]));
        let name = ServerName::try_from("localhost").unwrap();
        let stream = connector.connect(name, stream).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        Self::over(stream, None).await
    }

    /// Without having been asked; with how its connection ends.
    pub(crate) async fn with_end(address: SocketAddr) -> (Self, JoinHandle<hyper::Result<()>>) {
        Self::driven(TcpStream::connect(address).await.unwrap(), None).await
    }

    /// Without having been asked; with a second handle on its socket, to close that under it.
    pub(crate) async fn with_socket(address: SocketAddr) -> (Self, std::net::TcpStream) {
        let socket = TcpStream::connect(address).await.unwrap().into_std().unwrap();
        let stream = TcpStream::from_std(socket.try_clone().unwrap()).unwrap();
        (Self::over(stream, None).await, socket)
    }

    async fn over(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        window: Option<u32>,
    ) -> Self {
        Self::driven(stream, window).await.0
    }

    async fn driven(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        window: Option<u32>,
    ) -> (Self, JoinHandle<hyper::Result<()>>) {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(window);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
        (Self(sender), tokio::spawn(connection))
    }

    /// Sends a request with a key; its stream is reset when this is dropped.
    pub(crate) fn post_to_reset(
        &self,
        target: &str,
        key: &str,
    ) -> impl Future<Output = hyper::Result<Response<Incoming>>> + use<> {
        let request = Request::post(format!("http://a{target}")).header("idempotency-key", key);
        let request = request.body(Either::Left(Full::default())).unwrap();
        let mut sender = self.0.clone();
        async move { sender.send_request(request).await }
    }

    /// Sends a request; none of the answer's fields may be for one connection only.
    pub(crate) async fn ask(&self, request: Request<Full<Bytes>>) -> Response<Bytes> {
        self.whole(request.map(Either::Left)).await
    }

    /// Sends a request whose body begins, and then stops.
    pub(crate) async fn stall(&self, request: request::Builder) -> Response<Bytes> {
        let body = Stalled(Some(Bytes::from("some")));
        self.whole(request.body(Either::Right(body)).unwrap()).await
    }

    /// The beginning of an answer.
    pub(crate) async fn begin(&self, target: &str) -> Response<Incoming> {
        let request = Request::get(format!("http://a{target}")).body(Full::default()).unwrap();
        let mut sender = self.0.clone();
        timeout(LIMIT, sender.send_request(request.map(Either::Left))).await.unwrap().unwrap()
    }

    /// The beginning of an answer to a request with a key.
    pub(crate) async fn begin_post(&self, target: &str, key: &str) -> Response<Incoming> {
        let request = Request::post(format!("http://a{target}")).header("idempotency-key", key);
        let request = request.body(Either::Left(Full::default())).unwrap();
        timeout(LIMIT, self.0.clone().send_request(request)).await.unwrap().unwrap()
    }

    async fn whole(&self, request: Request<Upload>) -> Response<Bytes> {
        let mut sender = self.0.clone();
        let asked = async {
            let response = sender.send_request(request).await.unwrap();
            let (parts, body) = response.into_parts();
            Response::from_parts(parts, body.collect().await.unwrap().to_bytes())
        };
        let response = timeout(LIMIT, asked).await.unwrap();
        for name in ["connection", "keep-alive", "transfer-encoding", "upgrade"] {
            assert!(!response.headers().contains_key(name), "{name} in {response:?}");
        }
        response
    }

    pub(crate) async fn post(&self, target: &str, key: &str, body: &str) -> Response<Bytes> {
        let request = Request::post(format!("http://a{target}")).header("idempotency-key", key);
        self.ask(request.body(Full::from(body.to_owned())).unwrap()).await
    }

    pub(crate) async fn get(&self, target: &str) -> Response<Bytes> {
        self.ask(Request::get(format!("http://a{target}")).body(Full::default()).unwrap()).await
    }
}

// === impl Stalled ===

impl Body for Stalled {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.take().map_or(Poll::Pending, |bytes| Poll::Ready(Some(Ok(Frame::data(bytes)))))
    }
}
