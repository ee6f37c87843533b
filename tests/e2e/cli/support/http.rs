use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use super::TIMEOUT;

/// An answer, read to the end of its connection.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) text: String,
}

pub(crate) fn get(to: SocketAddr, path: &str) -> io::Result<Response> {
    send(to, &format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n"))
}

/// A request with a key, or without.
pub(crate) fn post(to: SocketAddr, path: &str, key: Option<&str>) -> io::Result<Response> {
    let key = key.map(|key| format!("idempotency-key: {key}\r\n")).unwrap_or_default();
    let head = format!("POST {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n{key}");
    send(to, &format!("{head}content-length: 2\r\n\r\n{{}}"))
}

fn send(to: SocketAddr, request: &str) -> io::Result<Response> {
    let mut stream = TcpStream::connect(to)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(request.as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| io::Error::other(format!("no answer: {text:?}")))?;
    Ok(Response { status, text })
}
