//! Headers and body as the list of named parts that is hashed.
//!
//! The hash has the length of each name and value before it, so no two lists have the same bytes. A
//! part is named by how its value was read: a body that was read as JSON, as a form or part by part
//! never equals one that is compared as it came, nor a decoded one the same bytes sent plainly.
//!
//! | kind of body | parts |
//! |---|---|
//! | anything | `body` |
//! | JSON | `json`: its canonical form |
//! | form | `form`, then a `field` for each |
//! | multipart | `multipart`: its preamble; for each part `part`, its headers as pairs of `part header` and `part value`, and `part body`; `epilogue` |
//! | gzip | `decoded`, then the parts of what it holds |
//!
//! JSON and bodies compared as they came have the parts that they had in the first version of this
//! list. Stored fingerprints are made of them: a change here refuses the retries of clients whose
//! records are older (see `tests/golden.rs`).

use std::borrow::Cow;

use http::header::{HeaderMap, HeaderName};
use semel_core::Fingerprint;

use super::coding::{Coding, gunzip};
use super::fields::{Present, push_fields};
use super::form;
use super::media_type::{ContentType, MediaType};
use super::multipart::Multipart;
use super::part::Part;
use crate::json::{self, Pointer};

/// What a route says about its requests.
pub(crate) struct Rules<'a> {
    /// Headers that count besides those that always do.
    pub(crate) more_headers: &'a [HeaderName],
    /// Members of a JSON body that do not.
    pub(crate) ignore: &'a [Pointer],
    /// The largest body that is compared decoded.
    pub(crate) decoded_max: u64,
}

/// A body by what it says.
enum Content<'a> {
    Bytes(&'a [u8]),
    Json(Vec<u8>),
    Form(Vec<&'a [u8]>),
    Multipart(Multipart<'a>),
}

/// The fingerprint of `head` and what follows it.
///
/// Costs one pass over the names of the headers and the cost of reading the body; nothing for
/// headers that are not there.
pub(crate) fn fingerprint(
    head: Vec<Part<'_>>,
    headers: &HeaderMap,
    body: &[u8],
    rules: &Rules<'_>,
) -> Fingerprint {
    let present = Present::among(headers);
    let content_type =
        if present.has_type() { ContentType::of(headers) } else { ContentType::Absent };
    let coding = if present.has_coding() { Coding::of(headers) } else { Coding::Identity };
    let decoded = match coding {
        Coding::Gzip => gunzip(body, rules.decoded_max),
        Coding::Identity | Coding::Other(_) | Coding::Unclear => None,
    };
    let content = match (&coding, &decoded) {
        (Coding::Identity, _) => Content::read(&content_type, body, rules),
        (_, Some(decoded)) => Content::read(&content_type, decoded, rules),
        (_, None) => Content::Bytes(body),
    };
    let mut named: Vec<Part<'_>> = head;
    let is_multipart = matches!(content, Content::Multipart(_));
    content_type.push(is_multipart, &mut named);
    coding.push(headers, &mut named);
    push_fields(headers, present, rules.more_headers, &mut named);
    if decoded.is_some() {
        named.push(("decoded", Cow::Borrowed(b"")));
    }
    content.push(&mut named);
    Fingerprint::new(named)
}

// === impl Content ===

impl<'a> Content<'a> {
    /// Reads a body as its type says, if it can be read in one way only.
    fn read(content_type: &ContentType<'_>, body: &'a [u8], rules: &Rules<'_>) -> Self {
        let read = match content_type {
            ContentType::One(media_type) => Self::read_as(media_type, body, rules),
            ContentType::Absent | ContentType::Unclear(_) => None,
        };
        read.unwrap_or(Self::Bytes(body))
    }

    fn read_as(media_type: &MediaType<'_>, body: &'a [u8], rules: &Rules<'_>) -> Option<Self> {
        if media_type.is_json() {
            json::canonical(body, rules.ignore).ok().map(Self::Json)
        } else if media_type.is_form() {
            form::fields(body).map(Self::Form)
        } else {
            Multipart::read(body, media_type.boundary()?).map(Self::Multipart)
        }
    }

    fn push(self, named: &mut Vec<Part<'a>>) {
        match self {
            Self::Bytes(bytes) => named.push(("body", bytes.into())),
            Self::Json(canonical) => named.push(("json", canonical.into())),
            Self::Form(fields) => {
                named.push(("form", Cow::Borrowed(b"")));
                named.extend(fields.into_iter().map(|field| ("field", field.into())));
            }
            Self::Multipart(multipart) => multipart.push(named),
        }
    }
}
