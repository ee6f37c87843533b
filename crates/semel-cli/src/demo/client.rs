//! A client for one request at a time.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use bytes::Bytes;
use http::header::{self, HeaderMap};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longer than the longest wait for a lease and a charge.
const TIMEOUT: Duration = Duration::from_mins(1);
const BODY_MAX: usize = 16 << 20;

/// What came back.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
}

// === impl Answer ===

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub(super) fn is_replayed(&self) -> bool {
        self.header("x-idempotency-replayed") == Some("true")
    }
}

pub(super) async fn get(to: SocketAddr, path: &str) -> anyhow::Result<Answer> {
    send(to, Method::GET, path, None, "").await
}

/// A request with a key.
pub(super) async fn post(
    to: SocketAddr,
    path: &str,
    key: &str,
    body: &str,
) -> anyhow::Result<Answer> {
    send(to, Method::POST, path, Some(key), body).await
}

async fn send(
    to: SocketAddr,
    method: Method,
    path: &str,
    key: Option<&str>,
    body: &str,
) -> anyhow::Result<Answer> {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, to.to_string())
        .header(header::CONNECTION, "close");
    if let Some(key) = key {
        request =
            request.header("idempotency-key", key).header(header::CONTENT_TYPE, "application/json");
    }
    let request = request.body(Full::new(Bytes::from(body.to_owned())))?;
    timeout(TIMEOUT, exchange(to, request))
        .await
        .with_context(|| format!("{to} did not answer {path} in time"))?
        .with_context(|| format!("no answer from {to} to {path}"))
}

async fn exchange(to: SocketAddr, request: Request<Full<Bytes>>) -> anyhow::Result<Answer> {
    let stream = TcpStream::connect(to).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // Its error, if any, is also that of the request.
    tokio::spawn(connection);
    let (head, body) = sender.send_request(request).await?.into_parts();
    let body = Limited::new(body, BODY_MAX).collect().await.map_err(|error| anyhow!("{error}"))?;
    let body = String::from_utf8_lossy(&body.to_bytes()).into_owned();
    Ok(Answer { status: head.status, headers: head.headers, body })
}
