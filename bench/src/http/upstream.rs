//! The API behind all gateways and proxies: one thread that reads the request and answers 300 bytes of JSON.

use std::cell::Cell;
use std::convert::Infallible;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::sync::LazyLock;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue, LINK, SET_COOKIE};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;

use super::plain::Connection;
use super::procfs;
use super::running::{Running, log_in};

const BODY_BYTES: usize = 300;
static REPLY: LazyLock<Bytes> = LazyLock::new(|| json(BODY_BYTES));
/// How long `/v1/slow` takes.
pub(crate) const SLOW: Duration = Duration::from_secs(1);
/// Returns the number of requests, without this one.
const COUNT: &str = "/count";
const CROWD_MAX: u32 = 4_096;
const LISTENING: &str = "upstream listening on ";

/// The upstream, as the bench sees it.
pub(crate) struct Upstream {
    running: Running,
    pub(crate) address: SocketAddr,
}

// === impl Upstream ===

impl Upstream {
    pub(crate) fn start(scratch: &Path) -> anyhow::Result<Self> {
        Self::start_as("upstream", scratch)
    }

    /// One of several, with a name of its own.
    pub(crate) fn start_as(name: &str, scratch: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        // It ends with the pipe: also if this process is killed and cannot end it.
        command.arg("upstream").stdin(Stdio::piped());
        let mut running = Running::start("the upstream", log_in(scratch, name), &mut command)?;
        let address = running.wait_for(|said| {
            said.lines().find_map(|line| line.strip_prefix(LISTENING)?.parse().ok())
        })?;
        Ok(Self { running, address })
    }

    pub(crate) fn cpu_time(&self) -> Duration {
        procfs::cpu_time(self.running.id())
    }
}

/// How many requests came so far to the upstream, or app, at this address.
pub(crate) fn count(at: SocketAddr) -> anyhow::Result<u64> {
    let answer = Connection::open(at)?.get(COUNT)?;
    std::str::from_utf8(&answer.body)?.parse().context("not a count")
}

/// The hidden command: serves until standard input ends.
pub(crate) fn serve() -> anyhow::Result<()> {
    thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, accept())
}

async fn accept() -> anyhow::Result<()> {
    // All connections of a proxy may come at once.
    let socket = tokio::net::TcpSocket::new_v4()?;
    socket.bind((std::net::Ipv4Addr::LOCALHOST, 0).into())?;
    let listener = socket.listen(CROWD_MAX)?;
    println!("{LISTENING}{}", listener.local_addr()?);
    let count = Rc::new(Cell::new(0_u64));
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let count = count.clone();
        tokio::task::spawn_local(async move {
            let service = service_fn(|request| answer(request, &count));
            // A client that disconnected needs no answer.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    count: &Cell<u64>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.uri().path() == COUNT {
        return Ok(Response::new(Full::from(count.get().to_string())));
    }
    count.set(count.get() + 1);
    let (parts, received) = request.into_parts();
    let _ = received.collect().await;
    let mut response = Response::new(Full::from(match bytes_asked(&parts) {
        Some(bytes) => json(bytes),
        None => REPLY.clone(),
    }));
    if parts.method == Method::POST {
        *response.status_mut() = StatusCode::CREATED;
    }
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    match parts.uri.path() {
        "/v1/slow" => tokio::time::sleep(SLOW).await,
        "/v1/headers" => repeat(headers),
        "/v1/bytes" => {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
            *response.body_mut() = (0..=u8::MAX).collect::<Bytes>().into();
        }
        _ => {}
    }
    Ok(response)
}

fn repeat(headers: &mut HeaderMap) {
    for link in [r#"</v1/orders/1>; rel="self""#, r#"</v1/orders>; rel="up""#] {
        headers.append(LINK, HeaderValue::from_static(link));
    }
    for cookie in ["a=1; Path=/", "b=2; Path=/"] {
        headers.append(SET_COOKIE, HeaderValue::from_static(cookie));
    }
}

/// `?bytes=N` requests an answer of that size.
fn bytes_asked(parts: &Parts) -> Option<usize> {
    parts.uri.query()?.strip_prefix("bytes=")?.parse().ok()
}

fn json(bytes: usize) -> Bytes {
    let (head, tail) = (r#"{"id":"ord_1","status":"created","note":""#, r#""}"#);
    let note = "n".repeat(bytes.saturating_sub(head.len() + tail.len()));
    format!("{head}{note}{tail}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_the_size_that_is_asked_for() {
        assert_eq!(REPLY.len(), BODY_BYTES);
        let request = Request::post("/v1/orders?bytes=1000").body(()).expect("a request");
        assert_eq!(bytes_asked(&request.into_parts().0).map(json).map(|it| it.len()), Some(1_000));
    }
}
