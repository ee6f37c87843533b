use std::borrow::Cow;
use std::net::IpAddr;

use http::header::{self, HeaderMap};
use http::request::Parts;
use semel_core::Scope;
use semel_planted::{Bug, planted};

use crate::json::{self, Pointer, Scalar};
use crate::policy::{OnMissingScope, RoutePolicy};
use crate::source::ScopeSource;

/// The address of the client, as an extension of the request. The gateway sets it; in an app of
/// your own, set it where you accept connections, if a route has the scope `client-ip`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientIp(pub IpAddr);

/// The route asks for an identity, and the request has none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this route needs a client identity, and the request has no {0}")]
pub(crate) struct ScopeMissing(String);

/// Who asks and what for: the namespace of the key (I7).
///
/// `what` is the route's pattern, or the path if no pattern matched.
pub(crate) fn scope_of(
    request: &Parts,
    what: &str,
    policy: &RoutePolicy,
) -> Result<Scope, ScopeMissing> {
    let mut parts: Vec<(&str, Cow<'_, [u8]>)> = Vec::with_capacity(2 + 2 * policy.scope.len());
    parts.push(("method", request.method.as_str().as_bytes().into()));
    parts.push(("route", what.as_bytes().into()));
    let sources = if planted(Bug::ScopeDropped) { &[] } else { &*policy.scope };
    for source in sources {
        let before = parts.len();
        add_identity(&mut parts, request, source);
        // More than the name of the source?
        if parts.len() == before + 1 {
            if policy.on_missing_scope == OnMissingScope::Reject {
                return Err(ScopeMissing(source.to_string()));
            }
            // Told apart from an empty value by its name.
            parts.push(("missing", Cow::Borrowed(&[])));
        }
    }
    Ok(Scope::new(parts))
}

/// Adds the name of a source, and all that it says about the client.
fn add_identity<'a>(
    parts: &mut Vec<(&'a str, Cow<'a, [u8]>)>,
    request: &'a Parts,
    source: &'a ScopeSource,
) {
    match source {
        ScopeSource::Header(name) => {
            parts.push(("header", name.as_str().as_bytes().into()));
            let values = request.headers.get_all(name).iter().filter(|value| !value.is_empty());
            parts.extend(values.map(|value| ("value", value.as_bytes().into())));
        }
        ScopeSource::Jwt(claim) => {
            parts.push(("jwt", claim.name().as_bytes().into()));
            let value = jwt_claim(&request.headers, claim.pointer());
            parts.extend(value.map(|value| ("value", value.into())));
        }
        ScopeSource::ClientIp => {
            parts.push(("client-ip", Cow::Borrowed(&[])));
            let ip = request.extensions.get::<ClientIp>().map(|ip| ip.0.to_canonical());
            parts.extend(ip.map(|ip| ("value", ip.to_string().into_bytes().into())));
        }
        ScopeSource::Global => {
            parts.push(("global", Cow::Borrowed(&[])));
            parts.push(("value", Cow::Borrowed(&[])));
        }
    }
}

/// A claim of the bearer token. Nothing is verified here.
fn jwt_claim(headers: &HeaderMap, claim: &Pointer) -> Option<Vec<u8>> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next()?.to_str().ok()?;
    if values.next().is_some() {
        return None;
    }
    let (scheme, token) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let mut parts = token.trim().split('.');
    let (_header, payload, _signature) = (parts.next()?, parts.next()?, parts.next()?);
    let payload = base64url(payload)?;
    match json::find(&payload, claim).ok()?? {
        Scalar::String(text) => Some([b"s:", text.as_bytes()].concat()),
        Scalar::Number(token) => Some([b"n:", token.as_bytes()].concat()),
        Scalar::Other => None,
    }
}

/// Unpadded base64url (RFC 4648, section 5), as tokens have it.
fn base64url(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in text.bytes() {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count & 0xff) as u8);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64url_is_read_and_other_text_refused() {
        assert_eq!(base64url("eyJzdWIiOiJhbm4ifQ").unwrap(), br#"{"sub":"ann"}"#);
        assert_eq!(base64url("-_8").unwrap(), [0xfb, 0xff]);
        assert!(base64url("a+b").is_none() && base64url("a=").is_none());
    }
}
