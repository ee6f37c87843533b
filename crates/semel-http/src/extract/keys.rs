//! The key of a request: in a header, or in a body of JSON.

use http::header::{self, HeaderMap, HeaderName};
use semel_core::{Key, KeyError, KeyLimits};

use crate::json::{self, Scalar};
use crate::policy::RoutePolicy;
use crate::source::PartSource;

/// Why a request has no usable key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeyProblem {
    #[error("the header field {0} comes more than once; send one key")]
    Repeated(HeaderName),
    #[error("the header field {found} is not {meant}, but to some servers; send {meant}")]
    Misspelled { found: HeaderName, meant: HeaderName },
    #[error(transparent)]
    Malformed(#[from] KeyError),
    #[error("the key in the body must be a JSON string or number")]
    NotText,
    #[error(
        "the body may have a key and is encoded ({0}); send it without Content-Encoding, or the key in a header"
    )]
    Encoded(String),
    #[error(
        "the body may have a key and cannot be read with certainty: {0}; send plain JSON in UTF-8 with each member once, or the key in a header"
    )]
    Unreadable(json::NotCanonical),
    #[error(
        "the body may have a key and is not UTF-8 by its Content-Type; send plain JSON in UTF-8, or the key in a header"
    )]
    OtherCharset,
}

/// The key in the headers, from the first source that has one.
pub(crate) fn key_in_headers(
    headers: &HeaderMap,
    policy: &RoutePolicy,
) -> Result<Option<Key>, KeyProblem> {
    for source in &policy.key_from {
        if let PartSource::Header(name) = source
            && let Some(key) = key_in_header(headers, name, policy.key_limits)?
        {
            return Ok(Some(key));
        }
    }
    misspelled(headers, policy).map_or(Ok(None), Err)
}

/// The key in the body, from the first source that has one.
///
/// A body that may have one and cannot be read here is refused: the upstream might read it.
pub(crate) fn key_in_body(
    headers: &HeaderMap,
    body: &[u8],
    policy: &RoutePolicy,
) -> Result<Option<Key>, KeyProblem> {
    if body.is_empty() {
        return Ok(None);
    }
    for source in &policy.key_from {
        let PartSource::Json(pointer) = source else { continue };
        if let Some(coding) = content_coding(headers) {
            return Err(KeyProblem::Encoded(coding));
        }
        if may_be_json(headers, body) && has_other_charset(headers) {
            return Err(KeyProblem::OtherCharset);
        }
        match json::find(body, pointer) {
            Ok(Some(Scalar::String(text) | Scalar::Number(text))) => {
                return Ok(Some(Key::parse_header(text.as_bytes(), policy.key_limits)?));
            }
            Ok(Some(Scalar::Other)) => return Err(KeyProblem::NotText),
            Err(error) if may_be_json(headers, body) => return Err(KeyProblem::Unreadable(error)),
            Ok(None) | Err(_) => {}
        }
    }
    Ok(None)
}

/// The codings of a body that is encoded.
fn content_coding(headers: &HeaderMap) -> Option<String> {
    let codings = headers.get_all(header::CONTENT_ENCODING).iter();
    let codings = codings.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    let named = |coding: &[u8]| String::from_utf8_lossy(coding.trim_ascii()).into_owned();
    codings.map(named).find(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity"))
}

/// True if a server would take it for JSON, by its type or by how it begins.
fn may_be_json(headers: &HeaderMap, body: &[u8]) -> bool {
    let says_json = |value: Vec<u8>| value.windows(4).any(|part| part == b"json");
    content_types(headers).any(says_json) || begins_as_json(body)
}

/// In UTF-8, UTF-16 or UTF-32, with a byte order mark or without: some servers find out.
fn begins_as_json(body: &[u8]) -> bool {
    const BYTE_ORDER_MARKS: [&[u8]; 4] =
        [b"\xef\xbb\xbf", b"\xfe\xff", b"\xff\xfe", b"\0\0\xfe\xff"];
    let is_filling = |byte: &&u8| **byte == 0 || byte.is_ascii_whitespace();
    BYTE_ORDER_MARKS.iter().any(|mark| body.starts_with(mark))
        || matches!(body.iter().find(|byte| !is_filling(byte)), Some(b'{' | b'['))
}

/// True if it says that it is in a charset in which ASCII may mean something else, such as UTF-7. Some
/// servers read JSON in it.
fn has_other_charset(headers: &HeaderMap) -> bool {
    const LIKE_ASCII: [&[u8]; 6] =
        [b"utf-8", b"utf8", b"us-ascii", b"iso-8859-1", b"iso-8859-15", b"windows-1252"];
    let is_other = |parameter: &[u8]| {
        let Some(at) = parameter.iter().position(|byte| *byte == b'=') else { return false };
        let (name, value) = (parameter[..at].trim_ascii(), parameter[at + 1..].trim_ascii());
        let quoted = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
        name == b"charset" && !LIKE_ASCII.contains(&quoted.unwrap_or(value))
    };
    content_types(headers).any(|value| value.split(|byte| *byte == b';').skip(1).any(is_other))
}

/// All that is said about the type of the body, in lower case.
fn content_types(headers: &HeaderMap) -> impl Iterator<Item = Vec<u8>> {
    headers.get_all(header::CONTENT_TYPE).iter().map(|value| value.as_bytes().to_ascii_lowercase())
}

/// True if the key can be in the body.
pub(crate) fn looks_into_body(policy: &RoutePolicy) -> bool {
    policy.key_from.iter().any(|source| matches!(source, PartSource::Json(_)))
}

fn key_in_header(
    headers: &HeaderMap,
    name: &HeaderName,
    limits: KeyLimits,
) -> Result<Option<Key>, KeyProblem> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    // Two fields, equal or not: proxies disagree on which one counts, so the request is refused.
    if values.next().is_some() {
        return Err(KeyProblem::Repeated(name.clone()));
    }
    Ok(Some(Key::parse_header(value.as_bytes(), limits)?))
}

/// A field with underscores for the hyphens of a source: the same one to CGI, WSGI and their kin, and
/// another one here.
fn misspelled(headers: &HeaderMap, policy: &RoutePolicy) -> Option<KeyProblem> {
    let mut found = headers.keys().filter(|name| name.as_str().contains('_'));
    let spelled = |name: &HeaderName| name.as_str().replace('_', "-");
    let meant = |found: &HeaderName| {
        policy.key_from.iter().find_map(|source| match source {
            PartSource::Header(name) if spelled(name) == spelled(found) => Some(name.clone()),
            _ => None,
        })
    };
    let problem = |found: &HeaderName| {
        Some(KeyProblem::Misspelled { found: found.clone(), meant: meant(found)? })
    };
    found.find_map(problem)
}
