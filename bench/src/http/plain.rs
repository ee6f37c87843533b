//! A client for what the load generator cannot do: single requests, and connections that stay.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::load;

const PATIENCE: Duration = Duration::from_secs(20);
const HEADS_MAX: usize = 100;

/// A connection that is kept open.
pub(crate) struct Connection {
    reader: BufReader<TcpStream>,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    /// All header lines, in lower case.
    pub(crate) head: Vec<String>,
    pub(crate) body: String,
}

// === impl Connection ===

impl Connection {
    pub(crate) fn open(to: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(to)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { reader: BufReader::with_capacity(1_024, stream) })
    }

    pub(crate) fn get(&mut self, path: &str) -> anyhow::Result<Answer> {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n"))
    }

    /// The same request as the load generator's, with this key.
    pub(crate) fn post(&mut self, key: &str) -> anyhow::Result<Answer> {
        let (path, credentials, body) = (load::PATH, load::CREDENTIALS, load::body());
        self.send(&format!(
            "POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n\
             Authorization: {credentials}\r\nIdempotency-Key: {key}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ))
    }

    fn send(&mut self, request: &str) -> anyhow::Result<Answer> {
        self.reader.get_mut().write_all(request.as_bytes())?;
        let status = self.line()?;
        let status = status.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.context("not an answer")?;
        let head = self.head()?;
        let length = head.iter().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.context("no content-length")?.parse()?];
        self.reader.read_exact(&mut body)?;
        Ok(Answer { status, head, body: String::from_utf8(body)? })
    }

    fn head(&mut self) -> anyhow::Result<Vec<String>> {
        let mut head = Vec::new();
        loop {
            let line = self.line()?.to_ascii_lowercase();
            if line.is_empty() {
                return Ok(head);
            }
            head.push(line);
            ensure!(head.len() < HEADS_MAX, "too many header lines");
        }
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        ensure!(self.reader.read_line(&mut line)? > 0, "the connection was closed");
        Ok(line.trim_end().to_owned())
    }
}

// === impl Answer ===

impl Answer {
    pub(crate) fn is_replay(&self) -> bool {
        self.head.iter().any(|line| line == "x-idempotency-replayed: true")
    }
}
