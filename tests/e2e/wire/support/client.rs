//! A client that sends any bytes, and reads answers by the letter.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};

use super::line::{broke_off, malformed};
use super::message::{Content, Fields, Framing, Head};
use super::{Authority, LIMIT, Line};

pub(crate) struct Client {
    line: Line,
}

/// An answer as it came.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) fields: Fields,
    pub(crate) framing: Framing,
    pub(crate) body: Vec<u8>,
    pub(crate) len: u64,
    pub(crate) trailers: Fields,
}

// === impl Client ===

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self { line: Line::plain(TcpStream::connect_timeout(&address, LIMIT).unwrap()) }
    }

    /// One that reads slowly, and whose system takes in little ahead of it.
    pub(crate) fn slow(address: SocketAddr, pause: Duration) -> Self {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        sockopt::set_socket_recv_buffer_size(&socket, 128 << 10).unwrap();
        connect(&socket, &address).unwrap();
        let mut line = Line::plain(TcpStream::from(socket));
        line.rest_before_reads(pause);
        Self { line }
    }

    /// Speaks TLS, HTTP/1.1 only.
    pub(crate) fn secure(address: SocketAddr, authority: &Authority) -> io::Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_read_timeout(Some(LIMIT))?;
        let mut io = authority.client(socket.try_clone()?);
        while io.conn.is_handshaking() {
            io.conn.complete_io(&mut io.sock)?;
        }
        Ok(Self { line: Line::over(Box::new(io), socket) })
    }

    /// Another hand on the same connection, without TLS.
    pub(crate) fn twin(&self) -> Self {
        Self { line: self.line.twin() }
    }

    pub(crate) fn line(&mut self) -> &mut Line {
        &mut self.line
    }

    pub(crate) fn set_timeout(&self, limit: Duration) {
        self.line.set_timeout(limit);
    }

    /// Sends what the other side must take.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.line.send(bytes.as_ref()).unwrap();
        self
    }

    /// Sends what the other side may have stopped to take.
    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.line.send(bytes.as_ref())
    }

    /// Sends and reads the answer.
    pub(crate) fn ask(&mut self, bytes: impl AsRef<[u8]>) -> Reply {
        let is_head = bytes.as_ref().starts_with(b"HEAD ");
        self.send(bytes);
        self.try_reply(is_head).unwrap()
    }

    pub(crate) fn reply(&mut self) -> Reply {
        self.try_reply(false).unwrap()
    }

    /// Only the head of an answer, with all its line ends.
    pub(crate) fn head(&mut self) -> String {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            head += &self.line.line().unwrap();
            head += "\r\n";
        }
        head
    }

    /// The next answer, also an interim one; an error of kind `UnexpectedEof` if there is none.
    pub(crate) fn try_reply(&mut self, to_head: bool) -> io::Result<Reply> {
        let head = Head::read(&mut self.line)?;
        let status = status(&head.start)?;
        let framing = framing(&head, status, to_head)?;
        let Content { bytes: body, len, trailers } = Content::read(&mut self.line, framing)?;
        Ok(Reply { status, fields: head.fields, framing, body, len, trailers })
    }

    /// The final answer, if there is one before the connection ends.
    pub(crate) fn final_reply(&mut self, to_head: bool) -> io::Result<Option<Reply>> {
        loop {
            match self.try_reply(to_head) {
                Ok(reply) if reply.status < 200 => {}
                Ok(reply) => return Ok(Some(reply)),
                Err(error) if error.kind() == broke_off().kind() => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// The other side has closed, in good order.
    pub(crate) fn assert_ended(&mut self) {
        assert!(self.line.has_ended().unwrap(), "more came: {:?}", self.line.rest());
    }

    /// The other side has closed, with a reset or without.
    pub(crate) fn assert_cut(&mut self) {
        match self.line.has_ended() {
            Ok(ended) => assert!(ended, "more came"),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{error}"),
        }
    }

    pub(crate) fn reset(self) {
        self.line.reset_on_drop();
    }
}

fn status(start: &str) -> io::Result<u16> {
    let rest = start.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..));
    let digits = rest.and_then(|rest| rest.get(..3)).ok_or_else(|| malformed(start))?;
    digits.parse().map_err(|_| malformed(start))
}

fn framing(head: &Head, status: u16, to_head: bool) -> io::Result<Framing> {
    let has_none = to_head || status < 200 || status == 204 || status == 304;
    match head.framing()? {
        _ if has_none => Ok(Framing::None),
        Framing::None => Ok(Framing::Close),
        framing => Ok(framing),
    }
}

// === impl Reply ===

impl Reply {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.fields.get(name)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// True if it announces the end of the connection.
    pub(crate) fn closes(&self) -> bool {
        self.get("connection") == Some("close")
    }

    pub(crate) fn is_replay(&self) -> bool {
        self.get("x-idempotency-replayed") == Some("true")
    }

    /// `error_code` of a problem, or nothing.
    pub(crate) fn code(&self) -> String {
        let text = self.text();
        let rest = text.split_once("\"error_code\":\"").map_or("", |(_, rest)| rest);
        rest.split('"').next().unwrap_or_default().to_owned()
    }
}
