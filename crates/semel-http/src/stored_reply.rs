//! A reply as a record keeps it: status, every end-to-end header value in order, the exact bytes of
//! the body, trailers.
//!
//! The format, version 1, all numbers big-endian:
//!
//! ```text
//! 1          version
//! 1          flags: 1 = body compressed, 2 = body omitted
//! 2          status
//! fields     2 how many, then for each: 2 name length, name, 4 value length, value
//! fields     the trailers, in the same form
//! 4          body length before compression (omitted: 0)
//! rest       body, or its LZ4 block
//! ```

use bytes::{BufMut as _, Bytes, BytesMut};
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::headers;

/// A reply as it can be given again.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredReply {
    /// The status.
    pub status: StatusCode,
    /// All end-to-end headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: StoredBody,
    /// What came after the body.
    pub trailers: HeaderMap,
}

/// The body of a stored reply.
#[derive(Clone, PartialEq, Eq)]
pub enum StoredBody {
    /// Its exact bytes.
    Kept(Bytes),
    /// Done, but too large to keep.
    Omitted,
}

/// A reply whose body is still as the record has it.
#[derive(Debug)]
pub(crate) struct PackedReply {
    status: StatusCode,
    headers: HeaderMap,
    pub(crate) body: PackedBody,
    trailers: HeaderMap,
}

/// The body of a [`PackedReply`].
pub(crate) enum PackedBody {
    Plain(Bytes),
    /// An LZ4 block, and its length before compression.
    Compressed(Bytes, usize),
    Omitted,
}

/// Why bytes are not a stored reply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoredReplyError {
    /// Written by a newer version.
    #[error(
        "the stored reply has format {0}, and this version reads up to {VERSION}; update Semel"
    )]
    Newer(u8),
    /// The bytes make no sense.
    #[error("the stored reply is damaged: {0}")]
    Damaged(&'static str),
}

const VERSION: u8 = 1;
const COMPRESSED: u8 = 1;
const BODY_OMITTED: u8 = 2;
/// Bodies up to this length are kept as they are: compressing them gains nothing.
const COMPRESS_FROM: usize = 513;
/// No body is larger, so no damaged length can ask for more memory.
const BODY_MAX: usize = 1 << 30;
/// How many fields a replay gets besides: it is marked as one, and says when it expires.
const REPLAY_FIELDS: usize = 4;

// === impl StoredReply ===

impl StoredReply {
    /// A reply with its connection's own headers taken out, and its cookies too unless they are to
    /// be replayed.
    pub fn new(
        status: StatusCode,
        mut headers: HeaderMap,
        body: StoredBody,
        trailers: HeaderMap,
        keep_cookies: bool,
    ) -> Self {
        headers::remove_hop_by_hop(&mut headers);
        if !keep_cookies {
            headers.remove(header::SET_COOKIE);
        }
        Self { status, headers, body, trailers }
    }

    /// The bytes for a record.
    pub fn encode(&self) -> Bytes {
        encode(self.status, &self.headers, true, &self.body, &self.trailers)
    }

    /// The reply in the bytes of a record.
    pub fn decode(bytes: &Bytes) -> Result<Self, StoredReplyError> {
        PackedReply::decode(bytes)?.unpack()
    }
}

// === impl PackedReply ===

impl PackedReply {
    /// The reply in the bytes of a record. What it takes is no more than those bytes.
    pub(crate) fn decode(bytes: &Bytes) -> Result<Self, StoredReplyError> {
        let mut input = Input { bytes: bytes.clone() };
        match input.u8()? {
            VERSION => {}
            0 => return Err(damaged("version")),
            newer => return Err(StoredReplyError::Newer(newer)),
        }
        let flags = input.u8()?;
        let status = StatusCode::from_u16(input.u16()?).map_err(|_| damaged("status"))?;
        let headers = input.fields()?;
        let trailers = input.fields()?;
        let len = input.u32()?;
        let body = PackedBody::new(flags, len, input.bytes)?;
        Ok(Self { status, headers, body, trailers })
    }

    /// The same with its body as it was. What that takes is [`PackedBody::len`].
    pub(crate) fn unpack(self) -> Result<StoredReply, StoredReplyError> {
        let Self { status, headers, body, trailers } = self;
        Ok(StoredReply { status, headers, body: body.unpack()?, trailers })
    }
}

/// The bytes for a record of a reply that is still needed. Its headers have no hop-by-hop fields
/// any more.
pub(crate) fn encode(
    status: StatusCode,
    headers: &HeaderMap,
    keep_cookies: bool,
    body: &StoredBody,
    trailers: &HeaderMap,
) -> Bytes {
    let (flags, len, body) = body.pack();
    let mut out =
        BytesMut::with_capacity(16 + fields_len(headers) + fields_len(trailers) + body.len());
    out.put_u8(VERSION);
    out.put_u8(flags);
    out.put_u16(status.as_u16());
    put_fields(&mut out, headers, keep_cookies);
    put_fields(&mut out, trailers, true);
    out.put_u32(len);
    out.put_slice(&body);
    out.freeze()
}

// === impl StoredBody ===

impl StoredBody {
    /// Flags, the length before compression, and the bytes.
    fn pack(&self) -> (u8, u32, Bytes) {
        let Self::Kept(body) = self else {
            return (BODY_OMITTED, 0, Bytes::new());
        };
        // No body over 1 GiB is ever read.
        let len = u32::try_from(body.len()).unwrap_or(u32::MAX);
        if body.len() >= COMPRESS_FROM {
            let packed = lz4_flex::block::compress(body);
            if packed.len() < body.len() {
                return (COMPRESSED, len, packed.into());
            }
        }
        (0, len, body.clone())
    }
}

// === impl PackedBody ===

impl PackedBody {
    fn new(flags: u8, len: u32, rest: Bytes) -> Result<Self, StoredReplyError> {
        let len = usize::try_from(len).map_err(|_| damaged("body length"))?;
        match flags {
            0 if rest.len() == len => Ok(Self::Plain(rest)),
            // LZ4 makes no more than 255 bytes of one.
            COMPRESSED if len <= BODY_MAX && len / 256 <= rest.len() => {
                Ok(Self::Compressed(rest, len))
            }
            BODY_OMITTED if len == 0 && rest.is_empty() => Ok(Self::Omitted),
            0 | COMPRESSED | BODY_OMITTED => Err(damaged("body length")),
            _ => Err(damaged("flags")),
        }
    }

    /// How long the body is once it is unpacked.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Plain(body) => body.len() as u64,
            Self::Compressed(_, len) => *len as u64,
            Self::Omitted => 0,
        }
    }

    fn unpack(self) -> Result<StoredBody, StoredReplyError> {
        match self {
            Self::Plain(body) => Ok(StoredBody::Kept(body)),
            Self::Compressed(block, len) => {
                let body = lz4_flex::block::decompress(&block, len).map_err(|_| damaged("body"))?;
                if body.len() == len {
                    Ok(StoredBody::Kept(body.into()))
                } else {
                    Err(damaged("body length"))
                }
            }
            Self::Omitted => Ok(StoredBody::Omitted),
        }
    }
}

/// Shows no byte of the body (trap 24).
impl std::fmt::Debug for PackedBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

/// Shows no byte of the body (trap 24).
impl std::fmt::Debug for StoredBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Kept(body) => write!(f, "Kept({} bytes)", body.len()),
            Self::Omitted => f.write_str("Omitted"),
        }
    }
}

/// What is left to read.
struct Input {
    bytes: Bytes,
}

// === impl Input ===

impl Input {
    fn take(&mut self, len: usize) -> Result<Bytes, StoredReplyError> {
        if self.bytes.len() < len {
            return Err(damaged("it ends too early"));
        }
        Ok(self.bytes.split_to(len))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], StoredReplyError> {
        let mut array = [0; N];
        array.copy_from_slice(&self.take(N)?);
        Ok(array)
    }

    fn u8(&mut self) -> Result<u8, StoredReplyError> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Result<u16, StoredReplyError> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, StoredReplyError> {
        self.array().map(u32::from_be_bytes)
    }

    fn fields(&mut self) -> Result<HeaderMap, StoredReplyError> {
        let count = usize::from(self.u16()?);
        // Each takes 6 bytes at least, so a damaged count cannot ask for much memory.
        if count > self.bytes.len() / 6 {
            return Err(damaged("number of fields"));
        }
        // With room for the fields that a replay gets besides, so that the map need not grow.
        let room = if count == 0 { 0 } else { count + REPLAY_FIELDS };
        let mut fields = HeaderMap::try_with_capacity(room).map_err(|_| damaged("fields"))?;
        for _ in 0..count {
            let len = usize::from(self.u16()?);
            let name = HeaderName::from_bytes(&self.take(len)?).map_err(|_| damaged("name"))?;
            let len = usize::try_from(self.u32()?).map_err(|_| damaged("value length"))?;
            let value =
                HeaderValue::from_maybe_shared(self.take(len)?).map_err(|_| damaged("value"))?;
            fields.try_append(name, value).map_err(|_| damaged("fields"))?;
        }
        Ok(fields)
    }
}

const fn damaged(what: &'static str) -> StoredReplyError {
    StoredReplyError::Damaged(what)
}

fn fields_len(fields: &HeaderMap) -> usize {
    2 + fields.iter().map(|(name, value)| 6 + name.as_str().len() + value.len()).sum::<usize>()
}

fn put_fields(out: &mut BytesMut, fields: &HeaderMap, with_cookies: bool) {
    let cookies = if with_cookies { 0 } else { fields.get_all(header::SET_COOKIE).iter().count() };
    // A message has far fewer fields (a `HeaderMap` holds 32,768 at most), and far shorter ones.
    out.put_u16(u16::try_from(fields.len() - cookies).unwrap_or(u16::MAX));
    for (name, value) in fields {
        if !with_cookies && name == header::SET_COOKIE {
            continue;
        }
        let name = name.as_str().as_bytes();
        out.put_u16(u16::try_from(name.len()).unwrap_or(u16::MAX));
        out.put_slice(name);
        out.put_u32(u32::try_from(value.len()).unwrap_or(u32::MAX));
        out.put_slice(value.as_bytes());
    }
}

#[cfg(test)]
mod tests;
