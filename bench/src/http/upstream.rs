//! The API behind all gateways and proxies: one thread that reads the request and answers 300 bytes of JSON.

use std::cell::Cell;
use std::convert::Infallible;
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::thread;

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;

use super::plain::Connection;
use super::running::{Running, log_in};

const BODY_BYTES: usize = 300;
/// Tells how many requests came, itself not counted.
const COUNT: &str = "/count";
const LISTENING: &str = "upstream listening on ";

/// The upstream, as the bench sees it.
pub(crate) struct Upstream {
    _running: Running,
    pub(crate) address: SocketAddr,
}

// === impl Upstream ===

impl Upstream {
    pub(crate) fn start(scratch: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        // It ends with the pipe: also if this process is killed and cannot end it.
        command.arg("upstream").stdin(Stdio::piped());
        let mut running =
            Running::start("the upstream", log_in(scratch, "upstream"), &mut command)?;
        let address = running.wait_for(|said| {
            said.lines().find_map(|line| line.strip_prefix(LISTENING)?.parse().ok())
        })?;
        Ok(Self { _running: running, address })
    }
}

/// How many requests came so far to the upstream, or app, at this address.
pub(crate) fn count(at: SocketAddr) -> anyhow::Result<u64> {
    let answer = Connection::open(at)?.get(COUNT)?;
    answer.body.parse().context("not a count")
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
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{LISTENING}{}", listener.local_addr()?);
    let count = Rc::new(Cell::new(0_u64));
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let count = count.clone();
        tokio::task::spawn_local(async move {
            let service = service_fn(|request| answer(request, &count));
            // Whoever hangs up needs no answer.
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
    let created = request.method() == Method::POST;
    let _ = request.into_body().collect().await;
    let mut response = Response::new(Full::from(body()));
    if created {
        *response.status_mut() = StatusCode::CREATED;
    }
    let json = hyper::header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    Ok(response)
}

fn body() -> Bytes {
    static BODY: std::sync::LazyLock<Bytes> = std::sync::LazyLock::new(|| {
        let (head, tail) = (r#"{"id":"ord_1","status":"created","note":""#, r#""}"#);
        let note = "n".repeat(BODY_BYTES - head.len() - tail.len());
        format!("{head}{note}{tail}").into()
    });
    BODY.clone()
}
