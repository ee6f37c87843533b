//! The request parts that must be equal when a key comes again.

mod coding;
mod compared;
mod fields;
mod form;
mod media_type;
mod multipart;
mod part;

pub(crate) use media_type::is_json;

use http::header::{self, HeaderMap};
use http::request::Parts;
use semel_core::Fingerprint;
use semel_core::planted::{Bug, planted};

use self::coding::{Coding, length_in_gzip};
use self::compared::Rules;
use self::part::Part;
use crate::policy::RoutePolicy;
use crate::routes::Route;

/// How many times larger than the largest body that is read a body may be once it is decoded.
const DECODED_FACTOR: u64 = 8;
/// And how large it may be at all: it is held in memory while it is compared (I10), and the thread that
/// decodes it serves others too.
const DECODED_MAX: u64 = 8 << 20;

/// The fingerprint of a request whose body has been read.
pub(crate) fn fingerprint_of(parts: &Parts, body: &[u8], route: &Route) -> Fingerprint {
    let body = if planted(Bug::FingerprintIgnored) { &[] } else { body };
    let mut named: Vec<Part<'_>> = Vec::with_capacity(10);
    named.push(("method", parts.method.as_str().as_bytes().into()));
    let path = route.compared(parts.uri.path());
    named.push(("path", path.as_bytes().into()));
    if let Some(query) = parts.uri.query() {
        named.push(("query", query.as_bytes().into()));
    }
    compared::fingerprint(named, &parts.headers, body, &rules(route.policy()))
}

/// How much memory [`fingerprint_of`] takes for what a body in gzip holds, beside the body itself.
pub(crate) fn decoded_len(headers: &HeaderMap, body: &[u8], policy: &RoutePolicy) -> u64 {
    if !headers.contains_key(header::CONTENT_ENCODING) {
        return 0;
    }
    match Coding::of(headers) {
        Coding::Gzip => length_in_gzip(body, rules(policy).decoded_max).unwrap_or(0),
        Coding::Identity | Coding::Other(_) | Coding::Unclear => 0,
    }
}

fn rules(policy: &RoutePolicy) -> Rules<'_> {
    Rules {
        more_headers: &policy.fingerprint_headers,
        ignore: &policy.fingerprint_ignore,
        decoded_max: policy.max_request_body.saturating_mul(DECODED_FACTOR).min(DECODED_MAX),
    }
}

#[cfg(test)]
mod readers;
#[cfg(test)]
mod tests;
