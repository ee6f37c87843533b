//! The client's side: a request, and its answer.

use std::io::{self, BufReader, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};

use super::message::{self, Fields};
use super::{Gateway, PATIENCE};

/// A request; it may be sent many times.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    method: String,
    target: String,
    fields: Fields,
    body: Vec<u8>,
}

/// A request that was sent. Dropped, its client has hung up.
pub(crate) struct Pending {
    stream: BufReader<TcpStream>,
    is_head: bool,
}

/// An answer as its client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) fields: Fields,
    pub(crate) body: Vec<u8>,
}

// === impl Call ===

impl Call {
    pub(crate) fn new(method: &str, target: &str) -> Self {
        let (method, target) = (method.to_owned(), target.to_owned());
        Self { method, target, fields: Vec::new(), body: Vec::new() }
    }

    /// A charge with this key, as most tests need it.
    pub(crate) fn charge(key: &str) -> Self {
        Self::new("POST", "/v1/charges").key(key).json(r#"{"amount":100}"#)
    }

    pub(crate) fn key(self, key: &str) -> Self {
        self.field("Idempotency-Key", key)
    }

    pub(crate) fn from(self, credential: &str) -> Self {
        self.field("Authorization", credential)
    }

    pub(crate) fn field(mut self, name: &str, value: &str) -> Self {
        self.fields.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn json(self, body: &str) -> Self {
        let other = |(name, _): &(String, String)| !name.eq_ignore_ascii_case("content-type");
        let fields = self.fields.iter().filter(|field| other(field)).cloned().collect();
        Self { fields, ..self }.field("Content-Type", "application/json").body(body.as_bytes())
    }

    pub(crate) fn body(mut self, body: &[u8]) -> Self {
        body.clone_into(&mut self.body);
        self
    }

    /// Sends it and waits for the answer.
    pub(crate) fn send(&self, gateway: &Gateway) -> Answer {
        self.send_to(gateway.listen())
    }

    pub(crate) fn send_to(&self, address: SocketAddr) -> Answer {
        self.try_send(address).unwrap_or_else(|error| panic!("{self:?}: no answer: {error}"))
    }

    pub(crate) fn try_send(&self, address: SocketAddr) -> io::Result<Answer> {
        self.try_begin(address, None)?.try_answer()
    }

    /// Sends it from another address of this machine.
    pub(crate) fn send_from(&self, ip: IpAddr, gateway: &Gateway) -> Answer {
        let sent = self.try_begin(gateway.listen(), Some(ip)).expect("a connection");
        sent.try_answer().expect("an answer")
    }

    /// Sends it and does not wait.
    pub(crate) fn begin(&self, gateway: &Gateway) -> Pending {
        self.try_begin(gateway.listen(), None).expect("a connection")
    }

    /// Sends only so many bytes of its body.
    pub(crate) fn begin_in_part(&self, gateway: &Gateway, sent: usize) -> Pending {
        let mut stream = TcpStream::connect(gateway.listen()).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        let bytes = self.bytes(gateway.listen());
        let end = bytes.len() - self.body.len() + sent;
        stream.write_all(&bytes[..end]).expect("a gateway");
        Pending { stream: BufReader::new(stream), is_head: false }
    }

    /// Connects and says nothing.
    pub(crate) fn silence(gateway: &Gateway) -> Pending {
        let stream = TcpStream::connect(gateway.listen()).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        Pending { stream: BufReader::new(stream), is_head: false }
    }

    fn try_begin(&self, address: SocketAddr, from: Option<IpAddr>) -> io::Result<Pending> {
        let mut stream = match from {
            None => TcpStream::connect(address)?,
            Some(ip) => connect_from(ip, address)?,
        };
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        stream.write_all(&self.bytes(address))?;
        Ok(Pending { stream: BufReader::new(stream), is_head: self.method == "HEAD" })
    }

    fn bytes(&self, address: SocketAddr) -> Vec<u8> {
        let mut fields = vec![("Host".to_owned(), address.to_string())];
        fields.extend(self.fields.iter().cloned());
        if !self.body.is_empty() || matches!(&*self.method, "POST" | "PUT" | "PATCH") {
            fields.push(("Content-Length".to_owned(), self.body.len().to_string()));
        }
        let start = format!("{} {} HTTP/1.1", self.method, self.target);
        [message::head(&start, &fields).as_bytes(), &self.body].concat()
    }
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
    pub(crate) fn answer(self) -> Answer {
        self.try_answer().expect("an answer")
    }

    pub(crate) fn try_answer(mut self) -> io::Result<Answer> {
        let (start, fields) =
            message::read_head(&mut self.stream)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let status = start.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status: u16 = status.ok_or_else(|| io::Error::other(start))?;
        let is_bodiless = self.is_head || status == 204 || status == 304;
        let body = if is_bodiless {
            Vec::new()
        } else {
            message::read_body(&mut self.stream, &fields, true)?
        };
        Ok(Answer { status, fields, body })
    }
}

// === impl Answer ===

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        message::value_of(&self.fields, name)
    }

    pub(crate) fn headers(&self, name: &str) -> Vec<&str> {
        message::values_of(&self.fields, name)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// True if it comes from the record.
    pub(crate) fn is_replay(&self) -> bool {
        self.header("x-idempotency-replayed") == Some("true")
    }

    /// The code of a problem, if it is one.
    pub(crate) fn code(&self) -> Option<String> {
        let problem: serde_json::Value = serde_json::from_slice(&self.body).ok()?;
        Some(problem.get("error_code")?.as_str()?.to_owned())
    }

    /// It is the problem `code`, whole and well-formed.
    #[track_caller]
    pub(crate) fn assert_problem(&self, status: u16, code: &str, retry_safe: bool) {
        assert_eq!((self.status, self.code().as_deref()), (status, Some(code)), "{}", self.text());
        assert_eq!(self.headers("content-type"), ["application/problem+json"]);
        assert!(!self.is_replay() || code == "execution_abandoned");
        let problem: serde_json::Value = serde_json::from_slice(&self.body).expect("JSON");
        let text = |member: &str| problem[member].as_str().expect("a text").to_owned();
        assert!(text("type").ends_with(&format!("/{code}")), "{problem}");
        assert!(text("title").len() > 5 && text("detail").len() > 20, "{problem}");
        assert_eq!(text("error_message"), text("detail"));
        assert_eq!(problem["status"], status);
        assert_eq!(problem["retry_safe"], retry_safe, "{problem}");
    }

    /// Its `Retry-After`, in seconds.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        self.header("retry-after").map(|value| value.parse().expect("seconds"))
    }
}
