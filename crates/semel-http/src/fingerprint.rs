//! The request parts that must be equal when a key comes again.

use std::borrow::Cow;

use http::header::{self, HeaderMap, HeaderName};
use http::request::Parts;
use semel_core::Fingerprint;
use semel_planted::{Bug, planted};

use crate::json;
use crate::policy::RoutePolicy;

/// The fingerprint of a request whose body has been read.
pub(crate) fn fingerprint_of(parts: &Parts, body: &[u8], policy: &RoutePolicy) -> Fingerprint {
    let body = if planted(Bug::FingerprintIgnored) { &[] } else { body };
    let mut named: Vec<(&str, Cow<'_, [u8]>)> = Vec::with_capacity(10);
    named.push(("method", parts.method.as_str().as_bytes().into()));
    // As it was sent, unlike in the scope: see `Route::what`.
    named.push(("path", parts.uri.path().as_bytes().into()));
    if let Some(query) = parts.uri.query() {
        named.push(("query", query.as_bytes().into()));
    }
    for name in &policy.fingerprint_headers {
        named.push(("header", name.as_str().as_bytes().into()));
        for value in header_values(&parts.headers, name) {
            named.push(("value", value));
        }
    }
    // The two forms have names of their own, so a text never equals another's canonical form.
    match canonical(&parts.headers, body, policy) {
        Some(canonical) => named.push(("json", canonical.into())),
        None => named.push(("body", body.into())),
    }
    Fingerprint::new(named)
}

/// Of a content type only the essence counts: clients differ in how they write its parameters.
fn header_values<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = Cow<'a, [u8]>> {
    let is_content_type = name == header::CONTENT_TYPE;
    headers.get_all(name).iter().map(move |value| {
        if is_content_type { essence(value.as_bytes()).into() } else { value.as_bytes().into() }
    })
}

/// The canonical form of a JSON body, unless it is none, is encoded, or could be read in two ways.
fn canonical(headers: &HeaderMap, body: &[u8], policy: &RoutePolicy) -> Option<Vec<u8>> {
    let is_plain = !headers.contains_key(header::CONTENT_ENCODING);
    if is_plain && is_json(headers) {
        json::canonical(body, &policy.fingerprint_ignore).ok()
    } else {
        None
    }
}

/// Does the one `Content-Type` say JSON, in UTF-8?
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(header::CONTENT_TYPE).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return false;
    };
    let (value, essence) = (value.as_bytes(), essence(value.as_bytes()));
    (essence == b"application/json" || essence.ends_with(b"+json")) && charset_is_utf8(value)
}

fn charset_is_utf8(content_type: &[u8]) -> bool {
    let text = content_type.to_ascii_lowercase();
    text.split(|byte| *byte == b';').skip(1).all(|parameter| {
        match parameter.trim_ascii().strip_prefix(b"charset=") {
            Some(charset) => matches!(charset, b"utf-8" | b"\"utf-8\"" | b"utf8"),
            None => true,
        }
    })
}

fn essence(content_type: &[u8]) -> Vec<u8> {
    let end = content_type.iter().position(|byte| *byte == b';').unwrap_or(content_type.len());
    content_type[..end].trim_ascii().to_ascii_lowercase()
}

#[cfg(test)]
mod tests;
