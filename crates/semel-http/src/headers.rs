//! The header fields of the contract, and which fields are only for one connection.

use http::Method;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// The client's key.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// To the upstream: the fence of the execution. Never accepted from a client.
pub const IDEMPOTENCY_FENCE: HeaderName = HeaderName::from_static("idempotency-fence");
/// On replays: `true`.
pub const REPLAYED: HeaderName = HeaderName::from_static("x-idempotency-replayed");
/// On first answers and replays: until when a retry is replayed.
pub const EXPIRES: HeaderName = HeaderName::from_static("x-idempotency-expires");
/// `false` when the store was lost after the execution.
pub const STORED: HeaderName = HeaderName::from_static("x-idempotency-stored");
/// `true` when the work was executed without protection.
pub const BYPASSED: HeaderName = HeaderName::from_static("x-idempotency-bypassed");
/// `omitted` when the body of a replay was too large to keep.
pub const BODY: HeaderName = HeaderName::from_static("x-idempotency-body");

/// The value of the flags above.
pub(crate) const TRUE: HeaderValue = HeaderValue::from_static("true");
/// The other value.
pub(crate) const FALSE: HeaderValue = HeaderValue::from_static("false");
/// What [`BODY`] says.
pub(crate) const OMITTED: HeaderValue = HeaderValue::from_static("omitted");
/// "Do not send another request on this connection."
pub(crate) const CLOSE: HeaderValue = HeaderValue::from_static("close");

/// Takes out what concerns one connection only: the fields that always do, and those that
/// `Connection` names. Whatever is left is end to end.
///
/// `Connection` cannot take out what Semel itself or message framing relies on: a client that lists
/// `Content-Length` or `Idempotency-Key` there would otherwise have them vanish on the way.
pub fn remove_hop_by_hop(headers: &mut HeaderMap) {
    // Most messages have none, or one: looking at the names that are there is cheaper than asking
    // for each that might be.
    let found: Vec<HeaderName> =
        headers.keys().filter(|name| is_hop_by_hop(name)).cloned().collect();
    if found.contains(&header::CONNECTION) {
        for name in named_by_connection(headers) {
            if !is_needed(&name) {
                headers.remove(&name);
            }
        }
    }
    for name in &found {
        headers.remove(name);
    }
}

/// Takes out what only we may say about an answer of ours.
pub(crate) fn remove_own(headers: &mut HeaderMap) {
    let found: Vec<HeaderName> = headers.keys().filter(|name| is_own(name)).cloned().collect();
    for name in &found {
        headers.remove(name);
    }
}

/// Takes out of a trailer section what may not stand there (RFC 9110, section 6.5.1), or would be
/// taken out of a header section: framing, routing, credentials, cookies.
pub(crate) fn clean_trailers(trailers: &mut HeaderMap) {
    let is_out_of_place = |name: &HeaderName| {
        let forbidden = [
            header::SET_COOKIE,
            header::CONTENT_LENGTH,
            header::CONTENT_TYPE,
            header::CONTENT_ENCODING,
            header::CONTENT_RANGE,
            header::HOST,
            header::AUTHORIZATION,
            header::WWW_AUTHENTICATE,
            header::CACHE_CONTROL,
            header::LOCATION,
        ];
        is_hop_by_hop(name) || is_own(name) || forbidden.contains(name)
    };
    let found: Vec<HeaderName> =
        trailers.keys().filter(|name| is_out_of_place(name)).cloned().collect();
    for name in &found {
        trailers.remove(name);
    }
}

/// The methods that a request names in place of its own, in capitals, as frameworks read them that go by
/// such a field. Of several in one field they take the first or the last.
pub(crate) fn methods_in_place(headers: &HeaderMap) -> impl Iterator<Item = Method> {
    let fields = headers.iter().filter(|(name, _)| is_method_in_place(name));
    let named = fields.flat_map(|(_, value)| {
        let mut listed = value.as_bytes().split(|byte| *byte == b',');
        [listed.next(), listed.next_back()]
    });
    let method = |text: &[u8]| Method::from_bytes(&text.trim_ascii().to_ascii_uppercase()).ok();
    named.flatten().filter_map(method)
}

/// To CGI, WSGI and their kin with underscores too. Every request has all its names compared, and lengths differ most
/// often.
fn is_method_in_place(name: &HeaderName) -> bool {
    let name = name.as_str().as_bytes();
    let is_like = |(byte, known): (&u8, u8)| *byte == known || (*byte == b'_' && known == b'-');
    ["x-http-method", "x-http-method-override", "x-method-override"]
        .iter()
        .any(|known| known.len() == name.len() && name.iter().zip(known.bytes()).all(is_like))
}

/// True for a field that the gateway sets to report the decision on a request.
fn is_own(name: &HeaderName) -> bool {
    name.as_str().starts_with("x-idempotency-")
        && [REPLAYED, EXPIRES, STORED, BYPASSED, BODY].contains(name)
}

/// True if a policy may add this field to replays: not one that the reply itself may carry.
pub(crate) fn may_mark_replays(name: &HeaderName) -> bool {
    let of_replies = [
        header::SET_COOKIE,
        header::CONTENT_LENGTH,
        header::CONTENT_TYPE,
        header::CONTENT_ENCODING,
        header::LOCATION,
        header::DATE,
    ];
    let is_ours = name != REPLAYED && is_own(name);
    !is_ours && !is_hop_by_hop(name) && !of_replies.contains(name)
}

/// True for a field of one connection (hop-by-hop), whether `Connection` names it or not.
pub fn is_hop_by_hop(name: &HeaderName) -> bool {
    // By their texts, which the compiler tells apart by length and then at once. Each message has
    // all its names asked for.
    matches!(
        name.as_str(),
        "connection"
            | "keep-alive"
            | "proxy-connection"
            | "proxy-authenticate"
            | "proxy-authorization"
            | "te"
            | "trailer"
            | "transfer-encoding"
            | "upgrade"
    )
}

fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    headers
        .get_all(header::CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok())
        .collect()
}

fn is_needed(name: &HeaderName) -> bool {
    [
        header::CONTENT_LENGTH,
        header::HOST,
        header::AUTHORIZATION,
        header::CONTENT_TYPE,
        IDEMPOTENCY_KEY,
        IDEMPOTENCY_FENCE,
    ]
    .contains(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(fields: &[(&str, &str)]) -> HeaderMap {
        let field = |(name, value): &(&str, &str)| {
            (name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap())
        };
        let mut map = HeaderMap::new();
        for (name, value) in fields.iter().map(field) {
            map.append(name, value);
        }
        map
    }

    #[test]
    fn connection_and_its_options_are_removed() {
        let mut headers = map(&[
            ("connection", "close, x-private"),
            ("connection", "X-Second"),
            ("x-private", "1"),
            ("x-second", "2"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("x-kept", "3"),
        ]);
        remove_hop_by_hop(&mut headers);
        assert_eq!(headers, map(&[("x-kept", "3")]));
    }

    #[test]
    fn connection_cannot_remove_contract_headers() {
        let mut headers = map(&[
            ("connection", "idempotency-key, content-length, authorization"),
            ("idempotency-key", "k"),
            ("content-length", "3"),
            ("authorization", "Bearer a"),
        ]);
        remove_hop_by_hop(&mut headers);
        assert_eq!(headers.len(), 3);
    }

    #[test]
    fn trailers_have_neither_cookies_nor_framing() {
        let mut trailers = map(&[
            ("set-cookie", "session=1"),
            ("content-length", "3"),
            ("transfer-encoding", "chunked"),
            ("x-idempotency-replayed", "true"),
            ("grpc-status", "0"),
            ("server-timing", "db;dur=1"),
        ]);
        clean_trailers(&mut trailers);
        assert_eq!(trailers, map(&[("grpc-status", "0"), ("server-timing", "db;dur=1")]));
    }

    #[test]
    fn the_list_of_hop_by_hop_fields_is_complete() {
        for name in ["connection", "keep-alive", "te", "trailer", "upgrade", "proxy-connection"] {
            assert!(is_hop_by_hop(&name.parse().unwrap()), "{name}");
        }
        assert!(!is_hop_by_hop(&header::DATE));
    }
}
