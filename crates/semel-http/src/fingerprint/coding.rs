//! `Content-Encoding`, and what a body in gzip holds.

use std::borrow::Cow;
use std::io::Read as _;

use flate2::bufread::GzDecoder;
use http::header::{self, HeaderMap, HeaderValue};

use super::media_type::{is_token, lower_case, trim_blanks};
use super::part::Part;

/// How a body is encoded.
pub(crate) enum Coding<'a> {
    /// Not at all. `identity` says the same.
    Identity,
    /// Once, with gzip.
    Gzip,
    /// In some other way: the codings, in lower case, in their order.
    Other(Vec<Cow<'a, [u8]>>),
    /// The field breaks its grammar.
    Unclear,
}

// === impl Coding ===

impl<'a> Coding<'a> {
    pub(crate) fn of(headers: &'a HeaderMap) -> Self {
        let values = headers.get_all(header::CONTENT_ENCODING).iter();
        let listed = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
        let mut codings = Vec::new();
        for coding in listed.map(trim_blanks).filter(|coding| !coding.is_empty()) {
            if !is_token(coding) {
                return Self::Unclear;
            }
            match lower_case(coding) {
                coding if &*coding == b"identity" => {}
                // RFC 9110, section 8.4.1.3.
                coding if &*coding == b"x-gzip" => codings.push(Cow::Borrowed(b"gzip".as_slice())),
                coding => codings.push(coding),
            }
        }
        match codings.as_slice() {
            [] => Self::Identity,
            [one] if &**one == b"gzip" => Self::Gzip,
            _ => Self::Other(codings),
        }
    }

    pub(crate) fn push(self, headers: &'a HeaderMap, named: &mut Vec<Part<'a>>) {
        if matches!(self, Self::Identity) {
            return;
        }
        named.push(("header", Cow::Borrowed(b"content-encoding")));
        match self {
            Self::Identity => {}
            Self::Gzip => named.push(("value", Cow::Borrowed(b"gzip"))),
            Self::Other(codings) => {
                named.extend(codings.into_iter().map(|coding| ("value", coding)));
            }
            Self::Unclear => {
                let values = headers.get_all(header::CONTENT_ENCODING).iter();
                named
                    .extend(values.map(|value| ("raw value", HeaderValue::as_bytes(value).into())));
            }
        }
    }
}

/// What a body in gzip holds: that of its one member, if nothing else is around it, its checksum and
/// length are right, and it is at most `max` bytes. Of more members some servers read the first only.
pub(crate) fn gunzip(body: &[u8], max: u64) -> Option<Vec<u8>> {
    let len = length_in_gzip(body, max)?;
    let mut decoded = Vec::with_capacity(usize::try_from(len).ok()?);
    let mut member = GzDecoder::new(body);
    // One byte more than it says shows that it is larger. Nothing beyond is decoded.
    member.by_ref().take(len + 1).read_to_end(&mut decoded).ok()?;
    (decoded.len() as u64 == len && member.into_inner().is_empty()).then_some(decoded)
}

/// How many bytes [`gunzip`] takes for what a body holds: as many as its last bytes say that it does
/// (RFC 1952, section 2.3.1). `None` if that is more than `max`, and nothing is decoded.
pub(crate) fn length_in_gzip(body: &[u8], max: u64) -> Option<u64> {
    let len = u64::from(u32::from_le_bytes(*body.last_chunk()?));
    (len <= max).then_some(len)
}

#[cfg(test)]
mod tests;
