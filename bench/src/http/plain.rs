//! A client for what the load generator cannot do: single requests, and connections that stay.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, ensure};

use super::load;

const TIMEOUT: Duration = Duration::from_secs(20);
const HEADS_MAX: usize = 100;

/// A connection that is kept open.
pub(crate) struct Connection {
    reader: BufReader<TcpStream>,
}

/// A request with a key. What is not said is as the load generator has it.
#[derive(Clone)]
pub(crate) struct Post {
    pub(crate) path: String,
    pub(crate) key: String,
    pub(crate) credentials: String,
    pub(crate) cookie: Option<String>,
    pub(crate) body: String,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    /// All header lines, their names in lower case.
    pub(crate) head: Vec<String>,
    pub(crate) body: Vec<u8>,
}

// === impl Connection ===

impl Connection {
    pub(crate) fn open(to: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(to)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self { reader: BufReader::with_capacity(1_024, stream) })
    }

    pub(crate) fn get(&mut self, path: &str) -> anyhow::Result<Answer> {
        self.write(&format!("GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n"))?;
        self.read()
    }

    pub(crate) fn post(&mut self, post: &Post) -> anyhow::Result<Answer> {
        self.send(post)?;
        self.read()
    }

    /// Sends a request and does not wait for its answer.
    pub(crate) fn send(&mut self, post: &Post) -> anyhow::Result<()> {
        self.write(&post.text())
    }

    fn write(&mut self, request: &str) -> anyhow::Result<()> {
        Ok(self.reader.get_mut().write_all(request.as_bytes())?)
    }

    fn read(&mut self) -> anyhow::Result<Answer> {
        let status = self.line()?;
        let status = status.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.context("not an answer")?;
        let head = self.head()?;
        let length = head.iter().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.context("no content-length")?.parse()?];
        self.reader.read_exact(&mut body)?;
        Ok(Answer { status, head, body })
    }

    fn head(&mut self) -> anyhow::Result<Vec<String>> {
        let mut head = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(head);
            }
            let (name, value) = line.split_once(':').context("not a header")?;
            head.push(format!("{}: {}", name.to_ascii_lowercase(), value.trim()));
            ensure!(head.len() < HEADS_MAX, "too many header lines");
        }
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        ensure!(self.reader.read_line(&mut line)? > 0, "the connection was closed");
        Ok(line.trim_end().to_owned())
    }
}

// === impl Post ===

impl Post {
    pub(crate) fn new(path: &str, key: &str) -> Self {
        Self {
            path: path.to_owned(),
            key: key.to_owned(),
            credentials: load::CREDENTIALS.to_owned(),
            cookie: None,
            body: load::body(load::BODY_BYTES),
        }
    }

    fn text(&self) -> String {
        let Self { path, key, credentials, body, .. } = self;
        let cookie = self.cookie.as_ref().map(|cookie| format!("Cookie: {cookie}\r\n"));
        format!(
            "POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\n\
             Authorization: {credentials}\r\nIdempotency-Key: {key}\r\n{}Content-Length: {}\r\n\r\n{body}",
            cookie.unwrap_or_default(),
            body.len()
        )
    }
}

// === impl Answer ===

impl Answer {
    /// All values of a header, in order.
    pub(crate) fn values<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        let start = format!("{name}: ");
        self.head.iter().filter_map(move |line| line.strip_prefix(&start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_post_has_its_key_and_the_length_of_its_body() {
        let mut post = Post::new("/v1/orders", "key-1");
        post.cookie = Some("session=7".to_owned());
        let text = post.text();
        assert!(text.contains("\r\nIdempotency-Key: key-1\r\nCookie: session=7\r\n"), "{text}");
        assert!(text.contains("Content-Length: 200\r\n\r\n{"), "{text}");
    }

    #[test]
    fn repeated_headers_stay_apart() {
        let head = ["link: a", "content-length: 0", "link: b"].map(str::to_owned).to_vec();
        let answer = Answer { status: 201, head, body: Vec::new() };
        assert_eq!(answer.values("link").collect::<Vec<_>>(), ["a", "b"]);
    }
}
