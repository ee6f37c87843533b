//! The client's side: a request, and the wait for its answer.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use crate::{Answer, Gateway, Line};

/// A request; it may be sent many times.
#[derive(Clone, Debug)]
pub struct Call {
    method: String,
    target: String,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
}

/// A request that was sent. Dropped, its client has hung up.
#[derive(Debug)]
pub struct Pending {
    line: Line,
    is_head: bool,
}

/// GET, on a connection of its own. No step of it takes longer than `limit`.
pub fn get(address: SocketAddr, path: &str, limit: Duration) -> io::Result<Answer> {
    let line = Line::plain(TcpStream::connect_timeout(&address, limit)?);
    line.set_timeout(limit);
    Call::new("GET", path).begin_on(line, address)?.try_answer()
}

// === impl Call ===

impl Call {
    /// Without fields and body.
    pub fn new(method: &str, target: &str) -> Self {
        let (method, target) = (method.to_owned(), target.to_owned());
        Self { method, target, fields: Vec::new(), body: Vec::new() }
    }

    /// A charge with this key, as most tests need it.
    #[must_use]
    pub fn charge(key: &str) -> Self {
        Self::new("POST", "/v1/charges").key(key).json(r#"{"amount":100}"#)
    }

    /// With a key.
    #[must_use]
    pub fn key(self, key: &str) -> Self {
        self.field("Idempotency-Key", key)
    }

    /// With a credential.
    #[must_use]
    pub fn from(self, credential: &str) -> Self {
        self.field("Authorization", credential)
    }

    /// With one more field.
    #[must_use]
    pub fn field(mut self, name: &str, value: &str) -> Self {
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With this body, which is JSON.
    #[must_use]
    pub fn json(mut self, body: &str) -> Self {
        self.fields.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
        self.field("Content-Type", "application/json").body(body.as_bytes())
    }

    /// With this body.
    #[must_use]
    pub fn body(mut self, body: &[u8]) -> Self {
        body.clone_into(&mut self.body);
        self
    }

    /// Sends it and waits for the answer.
    pub fn send(&self, gateway: &Gateway) -> Answer {
        self.send_to(gateway.listen())
    }

    /// The same, to any server.
    pub fn send_to(&self, address: SocketAddr) -> Answer {
        self.try_send(address).unwrap_or_else(|error| panic!("{self:?}: no answer: {error}"))
    }

    /// The same, where there may be no answer.
    pub fn try_send(&self, address: SocketAddr) -> io::Result<Answer> {
        self.begin_on(Line::plain(TcpStream::connect(address)?), address)?.try_answer()
    }

    /// Sends it from another address of this machine.
    pub fn send_from(&self, ip: IpAddr, gateway: &Gateway) -> Answer {
        let stream = connect_from(ip, gateway.listen()).expect("a connection");
        self.begin_on(Line::plain(stream), gateway.listen()).expect("a gateway").answer()
    }

    /// Sends it and does not wait.
    pub fn begin(&self, gateway: &Gateway) -> Pending {
        self.begin_on(connect(gateway), gateway.listen()).expect("a gateway")
    }

    /// Sends only so many bytes of its body.
    pub fn begin_in_part(&self, gateway: &Gateway, sent: usize) -> Pending {
        let mut line = connect(gateway);
        let bytes = self.bytes(gateway.listen());
        let end = bytes.len() - self.body.len() + sent;
        line.send(&bytes[..end]).expect("a gateway");
        Pending { line, is_head: false }
    }

    /// Connects and says nothing.
    pub fn silence(gateway: &Gateway) -> Pending {
        Pending { line: connect(gateway), is_head: false }
    }

    fn begin_on(&self, mut line: Line, address: SocketAddr) -> io::Result<Pending> {
        line.keep_all();
        line.send(&self.bytes(address))?;
        Ok(Pending { line, is_head: self.method == "HEAD" })
    }

    fn bytes(&self, address: SocketAddr) -> Vec<u8> {
        let lines = self.fields.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        let fields: String = lines.collect();
        let has_body = !self.body.is_empty() || matches!(&*self.method, "POST" | "PUT" | "PATCH");
        let length = has_body.then(|| format!("Content-Length: {}\r\n", self.body.len()));
        let (method, target, length) = (&self.method, &self.target, length.unwrap_or_default());
        let head = format!("{method} {target} HTTP/1.1\r\nHost: {address}\r\n{fields}{length}\r\n");
        [head.as_bytes(), &self.body].concat()
    }
}

fn connect(gateway: &Gateway) -> Line {
    Line::plain(TcpStream::connect(gateway.listen()).expect("a connection"))
}

fn connect_from(ip: IpAddr, to: SocketAddr) -> io::Result<TcpStream> {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&socket, &SocketAddr::new(ip, 0))?;
    connect(&socket, &to)?;
    Ok(TcpStream::from(socket))
}

// === impl Pending ===

impl Pending {
    /// Waits for the answer.
    pub fn answer(self) -> Answer {
        self.try_answer().expect("an answer")
    }

    /// The same, where there may be none.
    pub fn try_answer(mut self) -> io::Result<Answer> {
        Answer::read(&mut self.line, self.is_head)
    }
}
