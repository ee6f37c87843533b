//! The API behind the gateway: it does as the test says, and remembers all that it saw.

use std::io::{self, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use super::Gate;
use super::message::{self, Fields};

/// A server of its own. Stops when dropped.
pub(crate) struct Upstream {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    handler: Box<dyn Fn(&Seen) -> Reply + Send + Sync>,
    seen: Mutex<Vec<Seen>>,
    stopped: AtomicBool,
}

/// A request as the upstream saw it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) fields: Fields,
    pub(crate) body: Vec<u8>,
    /// How many requests have come, this one included.
    pub(crate) number: usize,
    /// How many of them had its key.
    pub(crate) execution: usize,
}

/// What the upstream does with a request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Answers.
    Whole { status: u16, fields: Fields, body: Vec<u8> },
    /// Answers with a body of so many bytes.
    Large { status: u16, fields: Fields, bytes: u64 },
    /// Says that a body of so many bytes comes, sends this, and closes the connection.
    BreaksOff { declared: usize, body: Vec<u8> },
    /// Says that a body of so many bytes comes, sends this, and then no more.
    Stalls { declared: usize, body: Vec<u8> },
    /// Closes the connection without an answer.
    Closes,
    /// Never answers.
    Hangs,
}

// === impl Upstream ===

impl Upstream {
    /// Answers 201 with the number of the request.
    pub(crate) fn start() -> Self {
        Self::with(|seen| Reply::created(&format!(r#"{{"charge":{}}}"#, seen.number)))
    }

    pub(crate) fn with(handler: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        Self::at("127.0.0.1:0".parse().expect("an address"), handler)
    }

    /// Its handler is held up at a gate.
    pub(crate) fn gated(handler: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> (Gate, Self) {
        let gate = Gate::new();
        let inside = gate.clone();
        let upstream = Self::with(move |seen| {
            inside.pass();
            handler(seen)
        });
        (gate, upstream)
    }

    /// The first execution of each key is held up at a gate, and later ones are not. Answers 201 with
    /// the number of the execution.
    pub(crate) fn first_gated() -> (Gate, Self) {
        let gate = Gate::new();
        let inside = gate.clone();
        let upstream = Self::with(move |seen| {
            if seen.execution == 1 {
                inside.pass();
            }
            Reply::created(&format!(r#"{{"execution":{}}}"#, seen.execution))
        });
        (gate, upstream)
    }

    pub(crate) fn at(
        address: SocketAddr,
        handler: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).expect("a free address");
        let address = listener.local_addr().expect("an address");
        let handler = Box::new(handler);
        let shared = Shared { handler, seen: Mutex::default(), stopped: AtomicBool::new(false) };
        let shared = Arc::new(shared);
        let serving = shared.clone();
        thread::spawn(move || serve(&listener, &serving));
        Self { address, shared }
    }

    /// An address without a listener, which no other test uses.
    pub(crate) fn absent(last: u8) -> SocketAddr {
        let listener = TcpListener::bind((std::net::Ipv4Addr::new(127, 77, 0, last), 0));
        listener.and_then(|listener| listener.local_addr()).expect("a free address")
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// All requests so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().expect("requests").clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.shared.seen.lock().expect("requests").len()
    }

    /// How often work with this key was executed.
    pub(crate) fn executions(&self, key: &str) -> usize {
        self.shared.executions(key)
    }

    /// The fences of the executions with this key, in order.
    pub(crate) fn fences(&self, key: &str) -> Vec<u64> {
        let fence = |seen: &Seen| seen.header("idempotency-fence")?.parse().ok();
        let seen = self.seen();
        seen.iter().filter(|seen| seen.key() == Some(key)).filter_map(fence).collect()
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts, which then ends.
        let _ = TcpStream::connect(self.address);
    }
}

// === impl Shared ===

impl Shared {
    fn executions(&self, key: &str) -> usize {
        let seen = self.seen.lock().expect("requests");
        seen.iter().filter(|seen| seen.key() == Some(key)).count()
    }

    /// Remembers a request.
    fn see(&self, start: &str, fields: Fields, body: Vec<u8>) -> Seen {
        let mut words = start.split(' ').map(str::to_owned);
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut seen = self.seen.lock().expect("requests");
        let number = seen.len() + 1;
        let mut one = Seen { method, target, fields, body, number, execution: 1 };
        one.execution += seen.iter().filter(|other| other.key() == one.key()).count();
        seen.push(one.clone());
        one
    }

    fn converse(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut stream = BufReader::new(stream);
        while let Some((start, fields)) = message::read_head(&mut stream)? {
            let body = message::read_body(&mut stream, &fields, false)?;
            let seen = self.see(&start, fields, body);
            let reply = (self.handler)(&seen);
            if !reply.write(stream.get_mut(), seen.method == "HEAD")? {
                return Ok(());
            }
        }
        Ok(())
    }
}

fn serve(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.stopped.load(Ordering::Relaxed) {
            return;
        }
        let (Ok(stream), shared) = (stream, shared.clone()) else { continue };
        // A gateway that was killed breaks off, which is no fault of the upstream.
        thread::spawn(move || drop(shared.converse(stream)));
    }
}

// === impl Seen ===

impl Seen {
    pub(crate) fn key(&self) -> Option<&str> {
        self.header("idempotency-key")
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        message::value_of(&self.fields, name)
    }

    pub(crate) fn headers(&self, name: &str) -> Vec<&str> {
        message::values_of(&self.fields, name)
    }
}

// === impl Reply ===

impl Reply {
    pub(crate) fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self::Whole { status, fields: Vec::new(), body: body.into() }
    }

    pub(crate) fn created(json: &str) -> Self {
        Self::new(201, json).field("Content-Type", "application/json")
    }

    pub(crate) fn field(mut self, name: &str, value: &str) -> Self {
        if let Self::Whole { fields, .. } | Self::Large { fields, .. } = &mut self {
            fields.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// Sends it. Returns true if another request may follow on the connection.
    fn write(&self, stream: &mut TcpStream, is_head: bool) -> io::Result<bool> {
        match self {
            Self::Whole { status, fields, body } => {
                let sent = if is_head || *status == 204 { &[][..] } else { body };
                let length = (*status != 204).then_some(body.len() as u64);
                let bytes = [&head(*status, fields, length), sent].concat();
                stream.write_all(&bytes).map(|()| true)
            }
            Self::Large { status, fields, bytes } => {
                stream.write_all(&head(*status, fields, Some(*bytes)))?;
                io::copy(&mut io::repeat(b'x').take(*bytes), stream).map(|_| true)
            }
            Self::BreaksOff { declared, body } => {
                stream.write_all(&head(200, &[], Some(*declared as u64)))?;
                stream.write_all(body).map(|()| false)
            }
            Self::Stalls { declared, body } => {
                stream.write_all(&head(200, &[], Some(*declared as u64)))?;
                stream.write_all(body)?;
                stream.read(&mut [0; 1]).map(|_| false)
            }
            Self::Closes => Ok(false),
            // Until the other side gives up.
            Self::Hangs => stream.read(&mut [0; 1]).map(|_| false),
        }
    }
}

fn head(status: u16, fields: &[(String, String)], length: Option<u64>) -> Vec<u8> {
    let mut fields = fields.to_vec();
    if !fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("date")) {
        // As every server does; without it the gateway says when it answered.
        fields.push(("Date".to_owned(), "Sun, 06 Nov 1994 08:49:37 GMT".to_owned()));
    }
    fields.extend(length.map(|length| ("Content-Length".to_owned(), length.to_string())));
    message::head(&format!("HTTP/1.1 {status} As-Scripted"), &fields).into_bytes()
}
