//! An upstream on threads of its own that writes down every byte it gets.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use tokio_rustls::rustls::ServerConfig;

use super::line::broke_off;
use super::message::{Content, Fields, Head};
use super::{Authority, Framing, LIMIT, Line, eventually};

/// What of a connection's bytes is kept.
const BYTES_MAX: usize = 1 << 18;

/// A request as the upstream parsed it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) fields: Fields,
    pub(crate) framing: Framing,
    pub(crate) body: Vec<u8>,
    pub(crate) len: u64,
    pub(crate) trailers: Fields,
}

/// One connection, as far as it got.
#[derive(Clone, Debug, Default)]
pub(crate) struct Connection {
    pub(crate) bytes: Vec<u8>,
    pub(crate) requests: Vec<Seen>,
    /// What was wrong with what came.
    pub(crate) fault: Option<String>,
    pub(crate) has_ended: bool,
}

/// What becomes of the connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    Keep,
    Close,
}

/// Answers one request. An error ends the connection.
type Handler = dyn Fn(&Seen, &mut Line) -> io::Result<After> + Send + Sync;

#[derive(Clone)]
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    connections: Arc<Mutex<Vec<Connection>>>,
}

/// Holds requests until it is opened.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<bool>, Condvar)>);

// === impl Upstream ===

impl Upstream {
    /// Answers every request with what it was.
    pub(crate) fn echo() -> Self {
        Self::new(|seen, line| {
            line.send(&answer(seen, &seen.summary()))?;
            Ok(After::Keep)
        })
    }

    pub(crate) fn new(
        handler: impl Fn(&Seen, &mut Line) -> io::Result<After> + Send + Sync + 'static,
    ) -> Self {
        Self::start(handler, None, b"")
    }

    /// Begins every answer when it has a request's head, and ends it after the request's body.
    pub(crate) fn hasty() -> Self {
        let handler = |_: &Seen, line: &mut Line| line.send(b"ok").map(|()| After::Keep);
        Self::start(handler, None, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
    }

    /// The same with TLS.
    pub(crate) fn secure(authority: &Authority, name: &str) -> Self {
        Self::secure_with(authority, name, |seen, line| {
            line.send(&answer(seen, &seen.summary()))?;
            Ok(After::Keep)
        })
    }

    pub(crate) fn secure_with(
        authority: &Authority,
        name: &str,
        handler: impl Fn(&Seen, &mut Line) -> io::Result<After> + Send + Sync + 'static,
    ) -> Self {
        let config = authority.server_config(name, &[b"http/1.1"]);
        Self::start(handler, Some(config), b"")
    }

    /// Says `greeting` as soon as it has the head of a request.
    fn start(
        handler: impl Fn(&Seen, &mut Line) -> io::Result<After> + Send + Sync + 'static,
        tls: Option<Arc<ServerConfig>>,
        greeting: &'static [u8],
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let upstream =
            Self { address: listener.local_addr().unwrap(), connections: Arc::default() };
        let (shared, handler) = (upstream.clone(), Arc::new(handler) as Arc<Handler>);
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let (shared, handler, tls) = (shared.clone(), handler.clone(), tls.clone());
                let number = shared.open();
                std::thread::spawn(move || {
                    let ended = shared.serve(socket.unwrap(), tls, number, greeting, &*handler);
                    shared.close(number, ended.err());
                });
            }
        });
        upstream
    }

    fn serve(
        &self,
        socket: TcpStream,
        tls: Option<Arc<ServerConfig>>,
        number: usize,
        greeting: &[u8],
        handler: &Handler,
    ) -> io::Result<()> {
        let line = match tls {
            None => Line::plain(socket),
            Some(config) => Line::over(Box::new(Authority::serve(&config, &socket)?), socket),
        };
        let shared = self.clone();
        let mut line = line.tapped(move |bytes| {
            let kept = &mut shared.lock()[number].bytes;
            let room = BYTES_MAX.saturating_sub(kept.len());
            kept.extend_from_slice(&bytes[..room.min(bytes.len())]);
        });
        line.set_timeout(LIMIT * 10);
        while !line.has_ended()? {
            let seen = Seen::read(&mut line, greeting)?;
            self.lock()[number].requests.push(seen.clone());
            if handler(&seen, &mut line)? == After::Close {
                return Ok(());
            }
        }
        Ok(())
    }

    fn open(&self) -> usize {
        let mut connections = self.lock();
        connections.push(Connection::default());
        connections.len() - 1
    }

    fn close(&self, number: usize, error: Option<io::Error>) {
        let connection = &mut self.lock()[number];
        connection.has_ended = true;
        let gone = [broke_off().kind(), io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe];
        let fault = error.filter(|error| !gone.contains(&error.kind()));
        connection.fault = fault.map(|error| error.to_string());
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.connections.lock().unwrap()
    }

    pub(crate) fn connections(&self) -> Vec<Connection> {
        self.lock().clone()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every complete request so far. Nothing else must have come.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        let connections = self.connections();
        for connection in &connections {
            let text = String::from_utf8_lossy(&connection.bytes);
            assert!(connection.fault.is_none(), "{:?} in {text:?}", connection.fault);
        }
        connections.into_iter().flat_map(|connection| connection.requests).collect()
    }

    /// How many complete requests for this target there were.
    pub(crate) fn count(&self, target: &str) -> usize {
        self.seen().iter().filter(|seen| seen.target == target).count()
    }

    pub(crate) fn wait_for(&self, target: &str, times: usize) {
        let what = format!("{times} × {target} upstream");
        eventually(&what, || (self.count(target) >= times).then_some(()));
    }

    pub(crate) fn open_connections(&self) -> usize {
        self.lock().iter().filter(|connection| !connection.has_ended).count()
    }

    /// Waits until the other side's system knows that all connections are closed: what closes a
    /// connection travels, and on a busy machine what was sent later on another may overtake it.
    pub(crate) fn wait_until_closed(&self) {
        let remote = format!(" 0100007F:{:04X} 01 ", self.address.port());
        eventually("the upstream's connections are closed", || {
            let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
            (self.open_connections() == 0 && !sockets.contains(&remote)).then_some(())
        });
    }

    /// Waits until the gateway has closed all its connections: nothing can come any more.
    pub(crate) fn finished(&self) -> Vec<Seen> {
        eventually("all connections to the upstream are closed", || {
            (self.open_connections() == 0).then_some(())
        });
        self.seen()
    }
}

// === impl Seen ===

impl Seen {
    fn read(line: &mut Line, greeting: &[u8]) -> io::Result<Self> {
        let head = Head::read(line)?;
        let framing = head.framing()?;
        let mut words = head.start.split(' ').map(str::to_owned);
        let (method, target) = (words.next(), words.next());
        let is_right = words.next().as_deref() == Some("HTTP/1.1") && words.next().is_none();
        let (Some(method), Some(target), true) = (method, target, is_right) else {
            return Err(super::line::malformed(&head.start));
        };
        if head.fields.all("host").len() != 1 {
            return Err(super::line::malformed("not one Host"));
        }
        line.send(greeting)?;
        let Content { bytes: body, len, trailers } = Content::read(line, framing)?;
        Ok(Self { method, target, fields: head.fields, framing, body, len, trailers })
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.fields.get(name)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// What `echo` answers.
    pub(crate) fn summary(&self) -> String {
        format!("{} {} {}", self.method, self.target, self.len)
    }
}

/// A plain 200 with this body.
pub(crate) fn answer(seen: &Seen, body: &str) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    let body = if seen.method == "HEAD" { "" } else { body };
    format!("{head}{body}").into_bytes()
}

// === impl Gate ===

impl Gate {
    pub(crate) fn pass(&self) {
        let (open, opened) = &*self.0;
        let guard = opened.wait_timeout_while(open.lock().unwrap(), LIMIT, |open| !*open);
        drop(guard.unwrap());
    }

    pub(crate) fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
}
