//! A client that knows what it does not know.

use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// The default timeout of an answer. A loaded machine is slow.
const TIMEOUT: Duration = Duration::from_mins(1);

/// A request, which can be sent again and again.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    method: &'static str,
    path: String,
    fields: String,
    body: String,
    timeout: Duration,
}

/// What came back, with the header lines as they were sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    lines: Vec<String>,
    pub(crate) body: String,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum NoAnswer {
    /// The request never left.
    NotSent(io::Error),
    /// It may have been executed.
    Unsure(io::Error),
}

// === impl Call ===

impl Call {
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new("GET", path.into(), String::new())
    }

    pub(crate) fn post(path: &str, body: impl Into<String>) -> Self {
        Self::new("POST", path.to_owned(), body.into())
    }

    fn new(method: &'static str, path: String, body: String) -> Self {
        Self { method, path, fields: String::new(), body, timeout: TIMEOUT }
    }

    /// The client that sends it.
    pub(crate) fn by(self, who: &str) -> Self {
        self.field("authorization", &format!("Bearer {who}"))
    }

    pub(crate) fn key(self, key: &str) -> Self {
        self.field("idempotency-key", key)
    }

    fn field(mut self, name: &str, value: &str) -> Self {
        write!(self.fields, "{name}: {value}\r\n").expect("a string grows");
        self
    }

    pub(crate) fn within(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    pub(crate) fn send(&self, address: SocketAddr) -> Result<Answer, NoAnswer> {
        let mut stream = TcpStream::connect(address).map_err(NoAnswer::NotSent)?;
        self.exchange(&mut stream).map_err(NoAnswer::Unsure)
    }

    fn exchange(&self, stream: &mut TcpStream) -> io::Result<Answer> {
        let Self { method, path, fields, body, timeout } = self;
        stream.set_read_timeout(Some(*timeout))?;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: bank\r\nconnection: close\r\n{fields}\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes())?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Answer::parse(&text).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

// === impl Answer ===

impl Answer {
    /// `None` if it broke off.
    fn parse(text: &str) -> Option<Self> {
        let (head, body) = text.split_once("\r\n\r\n")?;
        let mut lines = head.lines().map(str::to_owned);
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let answer = Self { status, lines: lines.collect(), body: body.to_owned() };
        let length: usize = answer.header("content-length")?.parse().ok()?;
        (length == body.len()).then_some(answer)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.lines.iter().filter_map(|line| line.split_once(": "));
        fields.find(|(field, _)| *field == name).map(|(_, value)| value)
    }

    pub(crate) fn is_replay(&self) -> bool {
        self.header("x-idempotency-replayed") == Some("true")
    }

    /// The same without the headers of a replay.
    pub(crate) fn essence(mut self) -> Self {
        self.lines.retain(|line| !line.starts_with("x-idempotency-replayed: "));
        self
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The code of a problem.
    pub(crate) fn code(&self) -> String {
        self.json()["error_code"].as_str().unwrap_or_default().to_owned()
    }

    /// The id at the end of its location.
    pub(crate) fn id(&self) -> &str {
        let location = self.header("location").unwrap_or_default();
        location.rsplit('/').next().unwrap_or_default()
    }
}
