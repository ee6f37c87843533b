//! HTTP/1.1 of a client that may stop in the middle.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::digest::Reply;

/// No reply is larger.
const REPLY_BYTES_MAX: usize = 1 << 20;

/// A connection to a gateway.
pub(super) struct Connection {
    stream: TcpStream,
    /// What came and was not read yet.
    buffer: Vec<u8>,
}

/// An answer as it came.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// Names in lower case.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

// === impl Connection ===

impl Connection {
    pub(super) async fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: Vec::new() })
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Waits for the first bytes of an answer.
    pub(super) async fn first_bytes(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() { self.fill().await } else { Ok(()) }
    }

    /// The next answer.
    pub(super) async fn answer(&mut self) -> io::Result<Answer> {
        let end = loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                break end;
            }
            self.fill().await?;
        };
        let head: Vec<u8> = self.buffer.drain(..end + 4).collect();
        let (status, headers) = parse_head(&head).ok_or_else(|| broken("a head"))?;
        let mut answer = Answer { status, headers, body: Vec::new() };
        answer.body = if answer.header("transfer-encoding").is_some() {
            self.chunks().await?
        } else {
            let length = answer.header("content-length").unwrap_or("0");
            self.take(length.parse().map_err(|_| broken("a length"))?).await?
        };
        Ok(answer)
    }

    async fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let end = loop {
                if let Some(end) = find(&self.buffer, b"\r\n") {
                    break end;
                }
                self.fill().await?;
            };
            let line: Vec<u8> = self.buffer.drain(..end + 2).collect();
            let size = String::from_utf8_lossy(&line[..end]).into_owned();
            let size = usize::from_str_radix(size.split(';').next().unwrap_or_default().trim(), 16);
            let size = size.map_err(|_| broken("a chunk"))?;
            let chunk = self.take(size + 2).await?;
            if size == 0 {
                return Ok(body);
            }
            body.extend_from_slice(&chunk[..size]);
        }
    }

    async fn take(&mut self, length: usize) -> io::Result<Vec<u8>> {
        if length > REPLY_BYTES_MAX {
            return Err(broken("a length"));
        }
        while self.buffer.len() < length {
            self.fill().await?;
        }
        Ok(self.buffer.drain(..length).collect())
    }

    async fn fill(&mut self) -> io::Result<()> {
        self.buffer.reserve(4 << 10);
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

// === impl Answer ===

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub(super) fn reply(&self) -> Reply<'_> {
        (self.status, &self.headers, &self.body)
    }

    /// True if the connection can be used again.
    pub(super) fn keeps_open(&self) -> bool {
        !self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
    }
}

fn parse_head(head: &[u8]) -> Option<(u16, Vec<(String, String)>)> {
    let head = std::str::from_utf8(head).ok()?;
    let mut lines = head.trim_end().split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let field = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    };
    Some((status, lines.map(field).collect::<Option<_>>()?))
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|part| part == wanted)
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{what} that cannot be read"))
}
