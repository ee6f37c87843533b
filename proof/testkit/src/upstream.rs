//! The API behind the gateway, on threads of its own: it does as the test says, and remembers all that it saw.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use crate::line::malformed;
use crate::message::{Content, Head};
use crate::{Fields, Framing, Gate, Line, PATIENCE, Reply, broke_off, eventually};

/// What of a connection's bytes is kept.
const BYTES_MAX: usize = 1 << 18;

/// A request as the upstream parsed it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its method.
    pub method: String,
    /// Its target.
    pub target: String,
    /// Its header fields.
    pub fields: Fields,
    /// How the end of its body was known.
    pub framing: Framing,
    /// The first MiB of its body.
    pub body: Vec<u8>,
    /// The length of the whole body.
    pub len: u64,
    /// The fields after its body.
    pub trailers: Fields,
    /// How many requests have come, this one included.
    pub number: usize,
    /// How many of them had its key.
    pub execution: usize,
}

/// One connection, as far as it got.
#[derive(Clone, Debug, Default)]
pub struct Connection {
    /// What came on it.
    pub bytes: Vec<u8>,
    /// The complete requests.
    pub requests: Vec<Seen>,
    /// What was wrong with what came.
    pub fault: Option<String>,
    /// It is over.
    pub has_ended: bool,
}

/// What becomes of a connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// The next request may come.
    Keep,
    /// It is closed.
    Close,
}

/// Answers one request. An error ends the connection.
type Handler = dyn Fn(&Seen, &mut Line) -> io::Result<After> + Send + Sync;
/// Makes a connection of a socket: for TLS.
type Opener = dyn Fn(TcpStream) -> io::Result<Line> + Send + Sync;

/// A server of its own; requests must keep to the letter of HTTP/1.1. Accepts no more when it is dropped.
pub struct Upstream {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    open: Box<Opener>,
    /// What is sent when the head of a request is there.
    greeting: &'static [u8],
    handler: Box<Handler>,
    past: Mutex<Past>,
    is_stopped: AtomicBool,
}

#[derive(Default)]
struct Past {
    connections: Vec<Connection>,
    count: usize,
    /// By key.
    executions: HashMap<Option<String>, usize>,
}

// === impl Upstream ===

impl Upstream {
    /// Answers 201 with the number of the request.
    pub fn start() -> Self {
        Self::with(|seen| Reply::created(&format!(r#"{{"charge":{}}}"#, seen.number)))
    }

    /// Answers every request with what it was.
    pub fn echo() -> Self {
        Self::new(Seen::echo)
    }

    /// Answers as `handler` says.
    pub fn with(handler: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        Self::new(scripted(handler))
    }

    /// The same at an address that was chosen before.
    pub fn at(
        address: SocketAddr,
        handler: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::serve(address, |socket| Ok(Line::plain(socket)), b"", scripted(handler))
    }

    /// Its handler is held up at a gate.
    pub fn gated(handler: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> (Gate, Self) {
        let gate = Gate::default();
        let inside = gate.clone();
        let upstream = Self::with(move |seen| {
            inside.pass();
            handler(seen)
        });
        (gate, upstream)
    }

    /// The first execution of each key is held up at a gate, and later ones are not. Answers 201 with
    /// the number of the execution.
    pub fn first_gated() -> (Gate, Self) {
        let gate = Gate::default();
        let inside = gate.clone();
        let upstream = Self::with(move |seen| {
            if seen.execution == 1 {
                inside.pass();
            }
            Reply::created(&format!(r#"{{"execution":{}}}"#, seen.execution))
        });
        (gate, upstream)
    }

    /// Begins every answer when it has a request's head, and ends it after the request's body.
    pub fn hasty() -> Self {
        let open = |socket| Ok(Line::plain(socket));
        let greeting = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
        Self::serve(any_port(), open, greeting, |_, line| line.send(b"ok").map(|()| After::Keep))
    }

    /// `handler` itself sends the bytes of an answer.
    pub fn new(
        handler: impl Fn(&Seen, &mut Line) -> io::Result<After> + Send + Sync + 'static,
    ) -> Self {
        Self::over(|socket| Ok(Line::plain(socket)), handler)
    }

    /// The same on connections that `open` makes, with TLS.
    pub fn over(
        open: impl Fn(TcpStream) -> io::Result<Line> + Send + Sync + 'static,
        handler: impl Fn(&Seen, &mut Line) -> io::Result<After> + Send + Sync + 'static,
    ) -> Self {
        Self::serve(any_port(), open, b"", handler)
    }

    fn serve(
        address: SocketAddr,
        open: impl Fn(TcpStream) -> io::Result<Line> + Send + Sync + 'static,
        greeting: &'static [u8],
        handler: impl Fn(&Seen, &mut Line) -> io::Result<After> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).expect("a free address");
        let address = listener.local_addr().expect("an address");
        let (open, handler) = (Box::new(open), Box::new(handler));
        let (past, is_stopped) = (Mutex::default(), AtomicBool::new(false));
        let shared = Arc::new(Shared { open, greeting, handler, past, is_stopped });
        let serving = shared.clone();
        thread::spawn(move || accept(&listener, &serving));
        Self { address, shared }
    }

    /// An address without a listener, which no other test uses.
    pub fn absent(last: u8) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::new(127, 77, 0, last), 0));
        listener.and_then(|listener| listener.local_addr()).expect("a free address")
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same for a configuration.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All connections so far.
    pub fn connections(&self) -> Vec<Connection> {
        self.shared.lock().connections.clone()
    }

    /// Every complete request so far, in the order they came. Nothing else must have come.
    pub fn seen(&self) -> Vec<Seen> {
        let connections = &self.shared.lock().connections;
        for connection in connections {
            let text = String::from_utf8_lossy(&connection.bytes);
            assert!(connection.fault.is_none(), "{:?} in {text:?}", connection.fault);
        }
        let all = connections.iter().flat_map(|connection| &connection.requests);
        let mut seen: Vec<Seen> = all.cloned().collect();
        seen.sort_by_key(|seen| seen.number);
        seen
    }

    /// How many requests there were.
    pub fn count(&self) -> usize {
        self.shared.lock().count
    }

    /// How many of them were for this target.
    pub fn count_of(&self, target: &str) -> usize {
        self.seen().iter().filter(|seen| seen.target == target).count()
    }

    /// Waits until there were so many for this target.
    pub fn wait_for(&self, target: &str, times: usize) {
        let what = format!("{times} × {target} upstream");
        eventually(&what, || (self.count_of(target) >= times).then_some(()));
    }

    /// How often work with this key was executed.
    pub fn executions(&self, key: &str) -> usize {
        self.shared.lock().executions.get(&Some(key.to_owned())).copied().unwrap_or(0)
    }

    /// The fences of the executions with this key, in order.
    pub fn fences(&self, key: &str) -> Vec<u64> {
        let fence = |seen: &Seen| seen.header("idempotency-fence")?.parse().ok();
        let seen = self.seen();
        seen.iter().filter(|seen| seen.key() == Some(key)).filter_map(fence).collect()
    }

    /// How many connections are open.
    pub fn open_connections(&self) -> usize {
        self.shared.lock().connections.iter().filter(|connection| !connection.has_ended).count()
    }

    /// Waits until the gateway has closed all its connections: nothing can come any more.
    pub fn finished(&self) -> Vec<Seen> {
        eventually("all connections to the upstream are closed", || {
            (self.open_connections() == 0).then_some(())
        });
        self.seen()
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts, which then ends.
        let _ = TcpStream::connect(self.address);
    }
}

fn any_port() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

fn scripted(
    handler: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
) -> impl Fn(&Seen, &mut Line) -> io::Result<After> + Send + Sync + 'static {
    move |seen, line| handler(seen).write(line, seen.method == "HEAD")
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for socket in listener.incoming() {
        if shared.is_stopped.load(Ordering::Relaxed) {
            return;
        }
        let (Ok(socket), shared) = (socket, shared.clone()) else { continue };
        let number = shared.open_one();
        thread::spawn(move || {
            let ended = shared.converse(socket, number);
            shared.close_one(number, ended.err());
        });
    }
}

// === impl Shared ===

impl Shared {
    fn converse(self: &Arc<Self>, socket: TcpStream, number: usize) -> io::Result<()> {
        let shared = self.clone();
        let mut line = (self.open)(socket)?.tapped(move |bytes| {
            let kept = &mut shared.lock().connections[number].bytes;
            let room = BYTES_MAX.saturating_sub(kept.len());
            kept.extend_from_slice(&bytes[..room.min(bytes.len())]);
        });
        line.set_timeout(PATIENCE * 10);
        while !line.has_ended()? {
            let seen = self.see(Seen::read(&mut line, self.greeting)?, number);
            if (self.handler)(&seen, &mut line)? == After::Close {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Remembers a request.
    fn see(&self, mut seen: Seen, connection: usize) -> Seen {
        let mut past = self.lock();
        past.count += 1;
        seen.number = past.count;
        let executions = past.executions.entry(seen.key().map(str::to_owned)).or_default();
        *executions += 1;
        seen.execution = *executions;
        past.connections[connection].requests.push(seen.clone());
        seen
    }

    fn open_one(&self) -> usize {
        let connections = &mut self.lock().connections;
        connections.push(Connection::default());
        connections.len() - 1
    }

    fn close_one(&self, number: usize, error: Option<io::Error>) {
        let connection = &mut self.lock().connections[number];
        connection.has_ended = true;
        // A gateway that was killed breaks off, which is no fault of what it sent.
        let gone = [broke_off().kind(), io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe];
        let fault = error.filter(|error| !gone.contains(&error.kind()));
        connection.fault = fault.map(|error| error.to_string());
    }

    fn lock(&self) -> MutexGuard<'_, Past> {
        self.past.lock().expect("the past")
    }
}

// === impl Seen ===

impl Seen {
    fn read(line: &mut Line, greeting: &[u8]) -> io::Result<Self> {
        let head = Head::read(line)?;
        let framing = head.framing()?;
        let words: Vec<&str> = head.start.split(' ').collect();
        let [method, target, "HTTP/1.1"] = words[..] else { return Err(malformed(&head.start)) };
        if head.fields.all("host").len() != 1 {
            return Err(malformed("not one Host"));
        }
        line.send(greeting)?;
        let Content { bytes: body, len, trailers } = Content::read(line, framing)?;
        let (method, target, fields) = (method.to_owned(), target.to_owned(), head.fields);
        Ok(Self { method, target, fields, framing, body, len, trailers, number: 0, execution: 0 })
    }

    /// The key that the gateway has passed on.
    pub fn key(&self) -> Option<&str> {
        self.header("idempotency-key")
    }

    /// The first value of a field.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.fields.get(name)
    }

    /// All values of a field, in order.
    pub fn headers(&self, name: &str) -> Vec<&str> {
        self.fields.all(name)
    }

    /// Its body.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// What [`Upstream::echo`] answers.
    pub fn summary(&self) -> String {
        format!("{} {} {}", self.method, self.target, self.len)
    }

    /// Answers as [`Upstream::echo`] does.
    pub fn echo(&self, line: &mut Line) -> io::Result<After> {
        line.send(&answer(self, &self.summary())).map(|()| After::Keep)
    }
}

/// A plain 200 with this body.
pub fn answer(seen: &Seen, body: &str) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    let body = if seen.method == "HEAD" { "" } else { body };
    format!("{head}{body}").into_bytes()
}
