//! A client that sends any bytes, and reads answers by the letter.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};

use semel_testkit::{Answer, Line, broke_off};

use super::{Authority, LIMIT};

pub(crate) struct Client {
    line: Line,
}

// === impl Client ===

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let line = Line::plain(TcpStream::connect_timeout(&address, LIMIT).unwrap());
        line.set_timeout(LIMIT);
        Self { line }
    }

    /// One that reads slowly, and whose system takes in little ahead of it.
    pub(crate) fn slow(address: SocketAddr, pause: Duration) -> Self {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        sockopt::set_socket_recv_buffer_size(&socket, 128 << 10).unwrap();
        connect(&socket, &address).unwrap();
        let mut line = Line::plain(TcpStream::from(socket));
        line.set_timeout(LIMIT);
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
    pub(crate) fn ask(&mut self, bytes: impl AsRef<[u8]>) -> Answer {
        let is_head = bytes.as_ref().starts_with(b"HEAD ");
        self.send(bytes);
        self.try_reply(is_head).unwrap()
    }

    pub(crate) fn reply(&mut self) -> Answer {
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
    pub(crate) fn try_reply(&mut self, to_head: bool) -> io::Result<Answer> {
        Answer::read(&mut self.line, to_head)
    }

    /// The final answer, if there is one before the connection ends.
    pub(crate) fn final_reply(&mut self, to_head: bool) -> io::Result<Option<Answer>> {
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
