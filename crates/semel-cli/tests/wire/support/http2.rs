//! A client that speaks HTTP/2, with or without TLS.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::{Authority, LIMIT};

#[derive(Clone)]
pub(crate) struct Http2(SendRequest<Full<Bytes>>);

// === impl Http2 ===

impl Http2 {
    /// Without having been asked.
    pub(crate) async fn plain(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).await.unwrap()).await
    }

    /// As agreed while TLS began.
    pub(crate) async fn secure(address: SocketAddr, authority: &Authority) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        let connector = TlsConnector::from(authority.client_config(&[b"h2", b"http/1.1"]));
        let name = ServerName::try_from("localhost").unwrap();
        let stream = connector.connect(name, stream).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        Self::over(stream).await
    }

    async fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (sender, connection) = handshake.unwrap();
        tokio::spawn(connection);
        Self(sender)
    }

    /// Sends a request; none of the answer's fields may be for one connection only.
    pub(crate) async fn ask(&self, request: Request<Full<Bytes>>) -> Response<Bytes> {
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
