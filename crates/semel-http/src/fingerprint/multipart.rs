//! Bodies in parts (RFC 2046, section 5.1), without what separates them.
//!
//! The same parts between another boundary are the same. Servers read a boundary differently that
//! is not where the grammar has it: after a bare line feed, with blanks behind it, in the middle of
//! a line, or as the start of a longer one. So a body in which it is anywhere else is compared as it
//! came, and so is one that breaks the grammar. What is before the first and after the last boundary
//! counts as it is, though most servers ignore it: a retry of the same client repeats it.

use std::borrow::Cow;

use memchr::memmem;

use super::media_type::{is_token, lower_case, trim_blanks};
use super::part::Part;

/// Servers refuse bodies of more parts, and parts of more headers.
const PARTS_MAX: usize = 1000;
const HEADERS_MAX: usize = 32;
/// By RFC 2046.
const BOUNDARY_MAX: usize = 70;

/// A body in parts.
pub(crate) struct Multipart<'a> {
    /// With the end of its line.
    preamble: &'a [u8],
    parts: Vec<BodyPart<'a>>,
    /// With the end of the line before it.
    epilogue: &'a [u8],
}

struct BodyPart<'a> {
    headers: Vec<Header<'a>>,
    body: &'a [u8],
}

/// A name in lower case, and its value.
type Header<'a> = (Cow<'a, [u8]>, &'a [u8]);

// === impl Multipart ===

impl<'a> Multipart<'a> {
    /// Reads a body that all servers read alike. Costs one pass over it.
    pub(crate) fn read(body: &'a [u8], boundary: &[u8]) -> Option<Self> {
        if !is_boundary(boundary) {
            return None;
        }
        let delimiter = [b"--", boundary].concat();
        let mut places = memmem::find_iter(body, &delimiter);
        let first = places.next()?;
        let preamble = &body[..first];
        if !preamble.is_empty() && !preamble.ends_with(b"\r\n") {
            return None;
        }
        let mut parts = Vec::new();
        let mut rest = &body[first + delimiter.len()..];
        while let Some(after) = rest.strip_prefix(b"\r\n") {
            let start = body.len() - after.len();
            let next = places.next()?;
            let part = body.get(start..next)?.strip_suffix(b"\r\n")?;
            if parts.len() == PARTS_MAX {
                return None;
            }
            parts.push(BodyPart::read(part)?);
            rest = &body[next + delimiter.len()..];
        }
        let epilogue = rest.strip_prefix(b"--")?;
        let is_apart = epilogue.is_empty() || epilogue.starts_with(b"\r\n");
        (is_apart && places.next().is_none()).then_some(Self { preamble, parts, epilogue })
    }

    pub(crate) fn push(self, named: &mut Vec<Part<'a>>) {
        named.push(("multipart", self.preamble.into()));
        for part in self.parts {
            named.push(("part", Cow::Borrowed(b"")));
            for (name, value) in part.headers {
                named.push(("part header", name));
                named.push(("part value", value.into()));
            }
            named.push(("part body", part.body.into()));
        }
        named.push(("epilogue", self.epilogue.into()));
    }
}

fn is_boundary(boundary: &[u8]) -> bool {
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(byte);
    boundary.len() <= BOUNDARY_MAX
        && boundary.last().is_some_and(|last| *last != b' ')
        && boundary.iter().all(is_allowed)
}

// === impl BodyPart ===

impl<'a> BodyPart<'a> {
    fn read(part: &'a [u8]) -> Option<Self> {
        if let Some(body) = part.strip_prefix(b"\r\n") {
            return Some(Self { headers: Vec::new(), body });
        }
        let end = memmem::find(part, b"\r\n\r\n")?;
        Some(Self { headers: headers(&part[..end])?, body: &part[end + 4..] })
    }
}

/// Headers in their order.
fn headers(block: &[u8]) -> Option<Vec<Header<'_>>> {
    let mut headers = Vec::new();
    let mut rest = Some(block);
    while let Some(block) = rest {
        let end = memmem::find(block, b"\r\n");
        let line = &block[..end.unwrap_or(block.len())];
        rest = end.map(|end| &block[end + 2..]);
        if headers.len() == HEADERS_MAX {
            return None;
        }
        headers.push(header(line)?);
    }
    Some(headers)
}

/// A line that every parser reads as one header: no continuation of the last, and no line within it.
fn header(line: &[u8]) -> Option<Header<'_>> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    let is_broken = |byte: &u8| matches!(byte, b'\r' | b'\n' | 0);
    if !is_token(name) || value.iter().any(is_broken) {
        return None;
    }
    Some((lower_case(name), trim_blanks(value)))
}

#[cfg(test)]
mod tests;
