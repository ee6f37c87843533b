//! One end of a connection, byte by byte.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use rustix::net::sockopt;

use crate::PATIENCE;

/// What of a body is kept; the rest is only counted.
const KEPT_MAX: usize = 1 << 20;
/// The longest line that is read.
const LINE_MAX: usize = 1 << 20;

/// Something to read from and write to, with or without TLS.
pub trait Io: Read + Write + Send {}

impl<T: Read + Write + Send> Io for T {}

/// Is called with every byte that arrives.
type Tap = Box<dyn FnMut(&[u8]) + Send>;

/// A stream, what was read of it ahead, and its socket.
pub struct Line {
    io: Box<dyn Io>,
    socket: TcpStream,
    ahead: Vec<u8>,
    tap: Option<Tap>,
    pause: Duration,
    pub(crate) kept_max: usize,
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.io.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.io.flush()
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("socket", &self.socket).finish_non_exhaustive()
    }
}

// === impl Line ===

impl Line {
    /// Without TLS.
    pub fn plain(socket: TcpStream) -> Self {
        let io = Box::new(socket.try_clone().expect("a descriptor"));
        Self::over(io, socket)
    }

    /// Over a stream that uses the socket.
    pub fn over(io: Box<dyn Io>, socket: TcpStream) -> Self {
        socket.set_nodelay(true).expect("an option");
        socket.set_read_timeout(Some(PATIENCE)).expect("a limit");
        socket.set_write_timeout(Some(PATIENCE)).expect("a limit");
        let (ahead, pause) = (Vec::new(), Duration::ZERO);
        Self { io, socket, ahead, tap: None, pause, kept_max: KEPT_MAX }
    }

    /// Another hand on the same connection, without TLS.
    #[must_use]
    pub fn twin(&self) -> Self {
        Self::plain(self.socket.try_clone().expect("a descriptor"))
    }

    /// Calls `tap` with every byte that arrives.
    #[must_use]
    pub fn tapped(mut self, tap: impl FnMut(&[u8]) + Send + 'static) -> Self {
        self.tap = Some(Box::new(tap));
        self
    }

    /// How long a read may take.
    pub fn set_timeout(&self, limit: Duration) {
        self.socket.set_read_timeout(Some(limit)).expect("a limit");
    }

    /// Keeps bodies whole: otherwise only their first MiB is kept, and the rest counted.
    pub fn keep_all(&mut self) {
        self.kept_max = usize::MAX;
    }

    /// Makes it rest before each read: it reads 16 KiB at most at a time.
    pub fn rest_before_reads(&mut self, pause: Duration) {
        self.pause = pause;
    }

    /// Sends all of it.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.io.write_all(bytes)?;
        self.io.flush()
    }

    /// Reads more; says whether there was more.
    pub fn fill(&mut self) -> io::Result<bool> {
        std::thread::sleep(self.pause);
        let mut buffer = [0; 16 * 1024];
        let read = match self.io.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return self.fill(),
            read => read?,
        };
        if let Some(tap) = &mut self.tap {
            tap(&buffer[..read]);
        }
        self.ahead.extend_from_slice(&buffer[..read]);
        Ok(read > 0)
    }

    /// True if the other side has closed and nothing is left to read.
    pub fn has_ended(&mut self) -> io::Result<bool> {
        Ok(self.ahead.is_empty() && !self.fill()?)
    }

    /// One line, without its CRLF. A bare CR or LF is an error.
    pub fn line(&mut self) -> io::Result<String> {
        let end = loop {
            if let Some(end) = self.ahead.iter().position(|byte| *byte == b'\n') {
                break end;
            }
            if self.ahead.len() > LINE_MAX || !self.fill()? {
                return Err(broke_off());
            }
        };
        let line: Vec<u8> = self.ahead.drain(..=end).collect();
        let line = line.strip_suffix(b"\r\n").ok_or_else(|| malformed("a line that ends in LF"))?;
        if line.contains(&b'\r') || line.contains(&0) {
            return Err(malformed("a bare CR or NUL"));
        }
        Ok(line.iter().map(|byte| char::from(*byte)).collect())
    }

    /// Exactly `len` bytes, in chunks.
    pub fn pieces(&mut self, len: u64, mut each: impl FnMut(&[u8])) -> io::Result<()> {
        let mut left = len;
        while left > 0 {
            if self.ahead.is_empty() && !self.fill()? {
                return Err(broke_off());
            }
            let take = self.ahead.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            each(&self.ahead[..take]);
            self.ahead.drain(..take);
            left -= take as u64;
        }
        Ok(())
    }

    /// Exactly `len` bytes.
    pub fn exactly(&mut self, len: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.pieces(len as u64, |piece| bytes.extend_from_slice(piece))?;
        Ok(bytes)
    }

    /// All that comes until the other side closes.
    pub fn rest(&mut self) -> io::Result<Vec<u8>> {
        while self.fill()? {}
        Ok(std::mem::take(&mut self.ahead))
    }

    /// Says that no more is sent.
    pub fn half_close(&self) {
        // It may be gone already.
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Makes dropping it a reset.
    pub fn reset_on_drop(&self) {
        sockopt::set_socket_linger(&self.socket, Some(Duration::ZERO)).expect("an option");
    }
}

pub(crate) fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("malformed: {what}"))
}

/// The other side closed too early.
pub fn broke_off() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}
