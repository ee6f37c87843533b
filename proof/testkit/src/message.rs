//! Messages of HTTP/1.1, read without any leniency.

use std::io;

use crate::Line;
use crate::line::malformed;

/// How the end of a body is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is none.
    None,
    /// By the field `Content-Length`.
    Length(u64),
    /// By its last chunk.
    Chunked,
    /// It ends with the connection.
    Close,
}

/// Start line and fields.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head {
    pub(crate) start: String,
    pub(crate) fields: Fields,
}

/// Names in lower case, in the order they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(pub Vec<(String, String)>);

/// A body, or the beginning of a long one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Content {
    pub(crate) bytes: Vec<u8>,
    pub(crate) len: u64,
    pub(crate) trailers: Fields,
}

// === impl Head ===

impl Head {
    pub(crate) fn read(line: &mut Line) -> io::Result<Self> {
        let start = line.line()?;
        Ok(Self { start, fields: Fields::read(line)? })
    }

    /// How the body of a request is framed; whatever could be read in two ways is an error.
    pub(crate) fn framing(&self) -> io::Result<Framing> {
        let lengths = self.fields.all("content-length");
        match (self.fields.all("transfer-encoding").as_slice(), lengths.as_slice()) {
            ([], []) => Ok(Framing::None),
            (["chunked"], []) => Ok(Framing::Chunked),
            ([], [length]) if length.bytes().all(|byte| byte.is_ascii_digit()) => {
                length.parse().map(Framing::Length).map_err(|_| malformed("a length"))
            }
            _ => Err(malformed("ambiguous framing")),
        }
    }
}

// === impl Fields ===

impl Fields {
    fn read(line: &mut Line) -> io::Result<Self> {
        let mut fields = Vec::new();
        loop {
            let field = line.line()?;
            if field.is_empty() {
                return Ok(Self(fields));
            }
            let (name, value) = field.split_once(':').ok_or_else(|| malformed("no colon"))?;
            if name.is_empty() || !name.bytes().all(is_token) {
                return Err(malformed("the name of a field"));
            }
            if value.bytes().any(|byte| byte != b'\t' && byte.is_ascii_control()) {
                return Err(malformed("the value of a field"));
            }
            let value = value.trim_matches([' ', '\t']);
            fields.push((name.to_ascii_lowercase(), value.to_owned()));
        }
    }

    /// All values of a field, in order.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let same = self.0.iter().filter(|(other, _)| other == name);
        same.map(|(_, value)| value.as_str()).collect()
    }

    /// The first value of a field.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

// === impl Content ===

impl Content {
    /// Reads a body that ends so.
    pub(crate) fn read(line: &mut Line, framing: Framing) -> io::Result<Self> {
        let mut content = Self::default();
        match framing {
            Framing::None => {}
            Framing::Length(len) => content.take(line, len)?,
            Framing::Chunked => content.chunks(line)?,
            Framing::Close => {
                content.bytes = line.rest()?;
                content.len = content.bytes.len() as u64;
            }
        }
        Ok(content)
    }

    fn take(&mut self, line: &mut Line, len: u64) -> io::Result<()> {
        self.len += len;
        let kept_max = line.kept_max;
        line.pieces(len, |piece| {
            let room = kept_max.saturating_sub(self.bytes.len());
            self.bytes.extend_from_slice(&piece[..room.min(piece.len())]);
        })
    }

    fn chunks(&mut self, line: &mut Line) -> io::Result<()> {
        loop {
            let size = line.line()?;
            if size.is_empty() || !size.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(malformed("the size of a chunk"));
            }
            let size = u64::from_str_radix(&size, 16).map_err(|_| malformed("a chunk's size"))?;
            if size == 0 {
                self.trailers = Fields::read(line)?;
                return Ok(());
            }
            self.take(line, size)?;
            if line.exactly(2)? != b"\r\n" {
                return Err(malformed("the end of a chunk"));
            }
        }
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
