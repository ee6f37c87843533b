//! One client that sends requests and resets them or closes its connections, while another works.

use std::net::{Shutdown, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::figures::{Line, Round, millis, print_table};
use crate::gateway::memory;
use crate::http::plain::{Connection, Post};
use crate::http::subjects::{Kind, Subject};
use crate::http::tools::Tools;
use crate::http::upstream::Upstream;
use crate::http::{load, procfs, stop};

/// How many requests the client sends.
const REQUESTS: usize = 5_000;
/// How long the client waits before it resets one, or sends the next: the upstream takes a second.
const PAUSE: Duration = Duration::from_millis(1);
/// After how many streams the client that hangs up closes its connection.
const STREAMS_BEFORE_HANGING_UP: usize = 50;
/// What the ended connections of an address may leave behind, those of one connection, and that of the other client.
const EXECUTIONS_MAX: usize = 512 + 256 + 1;
const DESCRIPTORS_MAX: usize = 1_200;
const TIMES_MAX: f64 = 3.0;

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The disk to measure: a directory for scratch files.
    #[arg(long, default_value = ".")]
    directory: PathBuf,
    /// The gateway to measure [default: built from these sources]
    #[arg(long, value_name = "PROGRAM")]
    semel: Option<PathBuf>,
}

/// What the client does with its requests.
#[derive(Clone, Copy, Debug)]
enum Flood {
    /// Resets each stream of HTTP/2.
    Resets,
    /// Closes its connection over HTTP/2 after so many streams.
    HangsUp,
    /// Closes its connection over HTTP/1.1 after each request.
    PostsAndCloses,
}

/// A connection over HTTP/2.
struct Http2 {
    sender: SendRequest<Full<Bytes>>,
    socket: std::net::TcpStream,
}

/// What the other client saw.
struct Worked {
    round: Round,
    failed: usize,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    stop::listen()?;
    memory::raise_limit()?;
    let tools = Tools::find(arguments.semel.as_deref(), &[])?;
    let directory = arguments.directory.canonicalize()?;
    let scratch = tempfile::Builder::new().prefix("semel-bench-").tempdir_in(directory)?;
    let upstream = Upstream::start(scratch.path())?;
    let (to, scratch) = (upstream.address, scratch.path());
    println!("load average at the start: {}", procfs::load_average());
    for flood in [Flood::Resets, Flood::HangsUp, Flood::PostsAndCloses] {
        let name = format!("{flood:?}").to_lowercase();
        let gateway = Subject::gateway(Kind::Process, &name, &tools.semel, to, scratch)?;
        println!("\na client that {flood:?}");
        print_table(&measure(&gateway, flood)?);
    }
    Ok(())
}

fn measure(gateway: &Subject, flood: Flood) -> anyhow::Result<Vec<Line>> {
    let over = AtomicBool::new(false);
    work(gateway.address, "warm", 500, &over)?;
    let quiet = work(gateway.address, "quiet", 5_000, &over)?;
    let (descriptors, executions) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let look = || -> anyhow::Result<()> {
        descriptors.fetch_max(gateway.descriptors(), Ordering::Relaxed);
        let running = gateway.metric("semel_executions_in_flight")?;
        // A whole number is written without a fraction.
        executions.fetch_max(format!("{running}").parse()?, Ordering::Relaxed);
        Ok(())
    };
    let begun = Instant::now();
    let worked = thread::scope(|scope| {
        let worker = scope.spawn(|| work(gateway.address, "flooded", usize::MAX, &over));
        let watcher = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                look()?;
                thread::sleep(Duration::from_millis(20));
            }
            anyhow::Ok(())
        });
        let flooded = flood.run(gateway.address);
        over.store(true, Ordering::Relaxed);
        flooded?;
        watcher.join().map_err(|_| anyhow::anyhow!("the watcher panicked"))??;
        worker.join().map_err(|_| anyhow::anyhow!("the client panicked"))?
    })?;
    println!("{REQUESTS} requests took {:?}", begun.elapsed());
    println!("quiet:   {}\nflooded: {}", quiet.round.describe(), worked.round.describe());
    let times = worked.round.p99.as_secs_f64() / quiet.round.p99.as_secs_f64();
    let (most, running) = (descriptors.into_inner(), executions.into_inner());
    let line = |what: &str, value: String, asked: String, reached| Line {
        what: what.to_owned(),
        value,
        asked,
        reached,
    };
    Ok(vec![
        line(
            "executions at once",
            running.to_string(),
            format!("at most {EXECUTIONS_MAX}"),
            running <= EXECUTIONS_MAX,
        ),
        line(
            "descriptors",
            most.to_string(),
            format!("under {DESCRIPTORS_MAX}"),
            most < DESCRIPTORS_MAX,
        ),
        line(
            "failures of the other client",
            worked.failed.to_string(),
            "none".to_owned(),
            worked.failed == 0,
        ),
        line(
            "p99 of the other client",
            format!("{} ({times:.1} x {})", millis(worked.round.p99), millis(quiet.round.p99)),
            format!("at most {TIMES_MAX} x its quiet p99"),
            times <= TIMES_MAX,
        ),
    ])
}

/// Sends requests, one after the other, until it is over.
fn work(to: SocketAddr, seed: &str, most: usize, over: &AtomicBool) -> anyhow::Result<Worked> {
    let mut connection = Connection::open(to)?;
    let (mut latencies, mut failed, begun) = (Vec::new(), 0, Instant::now());
    for number in 0..most {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let sent = Instant::now();
        let answer = connection.post(&Post::new(load::PATH, &format!("{seed}-{number}")))?;
        let bypassed = answer.values("x-idempotency-bypassed").next().is_some();
        failed += usize::from(answer.status != 201 || bypassed);
        latencies.push(sent.elapsed());
        stop::check()?;
    }
    Ok(Worked { round: Round::new(begun.elapsed(), Duration::ZERO, latencies), failed })
}

// === impl Flood ===

impl Flood {
    /// Sends requests that take a second, and does not wait for their answers.
    fn run(self, to: SocketAddr) -> anyhow::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            match self {
                Self::Resets => reset(to).await,
                Self::HangsUp => hang_up(to).await,
                Self::PostsAndCloses => post_and_close(to).await,
            }
        })
    }
}

/// Resets each stream at once; connects again when the connection is closed.
async fn reset(to: SocketAddr) -> anyhow::Result<()> {
    let mut client = Http2::connect(to).await?;
    for number in 0..REQUESTS {
        if client.sender.is_closed() {
            client = Http2::connect(to).await?;
        }
        let answer = timeout(PAUSE, client.sender.send_request(request(number)?)).await;
        check_answer(answer.ok())?;
        stop::check()?;
    }
    Ok(())
}

/// Closes the connection with all its streams after every few of them.
async fn hang_up(to: SocketAddr) -> anyhow::Result<()> {
    for first in (0..REQUESTS).step_by(STREAMS_BEFORE_HANGING_UP) {
        let mut client = Http2::connect(to).await?;
        let mut open = Vec::new();
        for number in first..first + STREAMS_BEFORE_HANGING_UP {
            let mut asked = Box::pin(client.sender.send_request(request(number)?));
            match timeout(PAUSE, &mut asked).await {
                Ok(answer) => check_answer(Some(answer))?,
                Err(_) => open.push(asked),
            }
            stop::check()?;
        }
        // All at once: hyper would reset the streams first.
        client.socket.shutdown(Shutdown::Both)?;
    }
    Ok(())
}

async fn post_and_close(to: SocketAddr) -> anyhow::Result<()> {
    for number in 0..REQUESTS {
        let mut stream = TcpStream::connect(to).await?;
        let request = format!(
            "POST /v1/slow HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer of-another\r\n\
             idempotency-key: flood-{number}\r\ncontent-length: 2\r\n\r\n{{}}"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut status = [0; 12];
        if let Ok(read) = timeout(PAUSE, stream.read_exact(&mut status)).await {
            read?;
            let status = String::from_utf8_lossy(&status[9..]);
            ensure!(matches!(&*status, "201" | "429" | "503"), "it was answered {status}");
        }
        stop::check()?;
    }
    Ok(())
}

fn request(number: usize) -> anyhow::Result<Request<Full<Bytes>>> {
    let request = Request::post("http://bench/v1/slow")
        .header("authorization", "Bearer of-another")
        .header("idempotency-key", format!("flood-{number}"));
    Ok(request.body(Full::new(Bytes::from_static(b"{}")))?)
}

fn check_answer(answer: Option<hyper::Result<Response<Incoming>>>) -> anyhow::Result<()> {
    if let Some(Ok(response)) = answer {
        let status = response.status().as_u16();
        ensure!(matches!(status, 201 | 429 | 503), "it was answered {status}");
    }
    Ok(())
}

// === impl Http2 ===

impl Http2 {
    async fn connect(to: SocketAddr) -> anyhow::Result<Self> {
        let socket = TcpStream::connect(to).await?.into_std()?;
        let stream = TcpStream::from_std(socket.try_clone()?)?;
        let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (sender, connection) = handshake.context("no HTTP/2")?;
        tokio::spawn(connection);
        Ok(Self { sender, socket })
    }
}
