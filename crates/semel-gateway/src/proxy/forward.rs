//! The changes to headers and targets between client and upstream.

use std::net::{IpAddr, SocketAddr};

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Request, Uri, Version};
use semel_http::headers::remove_hop_by_hop;
use semel_http::leaves_root;

use crate::forwarded::Forwarded;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// The names of fields that an upstream may trust as the gateway's, besides that of the key.
const OURS: [&str; 9] = [
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-real-ip",
    // Some frameworks read these in place of the path, or as a prefix of it, and so would bypass the routes.
    "x-forwarded-prefix",
    "x-original-url",
    "x-rewrite-url",
    "idempotency-fence",
];

/// The client of a connection, in the form in which the upstream receives it.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) ip: IpAddr,
    /// `ip` as a header value, made once per connection.
    for_value: HeaderValue,
    proto: HeaderValue,
}

// === impl Peer ===

impl Peer {
    pub(crate) fn new(ip: IpAddr, is_tls: bool) -> Self {
        let ip = ip.to_canonical();
        // An address is always a valid value.
        let for_value = HeaderValue::try_from(ip.to_string())
            .unwrap_or_else(|_| HeaderValue::from_static("unknown"));
        let proto = HeaderValue::from_static(if is_tls { "https" } else { "http" });
        Self { ip, for_value, proto }
    }
}

/// The client's address. If the proxy in front is trusted, it is the last address in `X-Forwarded-For`, which that
/// proxy has added.
pub(crate) fn client_ip(headers: &HeaderMap, peer: &Peer, forwarded: Forwarded) -> IpAddr {
    let from_header = || {
        let value = headers.get_all(X_FORWARDED_FOR).iter().next_back()?.to_str().ok()?;
        let last = value.rsplit(',').next()?.trim();
        let with_port = || last.parse::<SocketAddr>().ok().map(|address| address.ip());
        Some(last.parse::<IpAddr>().ok().or_else(with_port)?.to_canonical())
    };
    match forwarded {
        Forwarded::Replace => peer.ip,
        Forwarded::Append => from_header().unwrap_or(peer.ip),
    }
}

/// Makes a client's headers fit for the upstream, but for the ones that depend on it.
pub(crate) fn prepare<B>(request: &mut Request<B>, peer: &Peer, forwarded: Forwarded) {
    let host = original_host(request);
    if let (Some(host), Some(_)) = (&host, request.uri().authority()) {
        // The target takes precedence over the field (RFC 9112, section 3.2.2).
        request.headers_mut().insert(header::HOST, host.clone());
    }
    let via = via(request.version());
    let headers = request.headers_mut();
    // A credential that the scope may be made of. It is removed later: see `end`.
    let credentials = headers.get_all(header::PROXY_AUTHORIZATION);
    let credentials: Vec<HeaderValue> = credentials.iter().cloned().collect();
    remove_hop_by_hop(headers);
    for credential in credentials {
        headers.append(header::PROXY_AUTHORIZATION, credential);
    }
    remove_claims(headers, forwarded);
    match forwarded {
        Forwarded::Replace => replace_forwarded(headers, peer, host),
        Forwarded::Append => append_forwarded(headers, peer, host),
    }
    headers.append(header::VIA, via);
}

/// Removes fields for the gateway alone, once scope and key are known: credentials for proxies, and a misspelled key
/// that an upstream may read as the key.
pub(crate) fn end(headers: &mut HeaderMap) {
    remove_where(headers, |name| {
        *name == header::PROXY_AUTHORIZATION || is_misspelled(name, &["idempotency-key"])
    });
}

/// Makes a reply's headers fit for the client. The length of a chunked reply is to be ignored (RFC 9112, section 6.3),
/// and would truncate the body.
pub(crate) fn clean(headers: &mut HeaderMap) {
    if headers.contains_key(header::TRANSFER_ENCODING) {
        headers.remove(header::CONTENT_LENGTH);
    }
    remove_hop_by_hop(headers);
}

/// Removes a client's claims about itself, and fields that an upstream may read as the gateway's: many read
/// `X_Forwarded_For` as `X-Forwarded-For`.
fn remove_claims(headers: &mut HeaderMap, forwarded: Forwarded) {
    remove_where(headers, |name| {
        // The others are overwritten.
        let is_about_itself = matches!(
            name.as_str(),
            "forwarded"
                | "x-forwarded-port"
                | "x-forwarded-prefix"
                | "x-original-url"
                | "x-real-ip"
                | "x-rewrite-url"
        );
        (is_about_itself && forwarded == Forwarded::Replace) || is_misspelled(name, &OURS)
    });
}

/// Few clients send such fields: iterating over the present names is cheaper than a lookup of each.
fn remove_where(headers: &mut HeaderMap, is_wrong: impl Fn(&HeaderName) -> bool) {
    let wrong: Vec<HeaderName> = headers.keys().filter(|name| is_wrong(name)).cloned().collect();
    for name in &wrong {
        headers.remove(name);
    }
}

/// Whether it is one of these names, spelled with underscores. Every request has all its names compared, and lengths
/// differ most often.
fn is_misspelled(name: &HeaderName, names: &[&str]) -> bool {
    let name = name.as_str();
    let is_like = |(byte, known)| byte == known || (byte == b'_' && known == b'-');
    let is_one = |known: &&str| {
        known.len() == name.len() && *known != name && name.bytes().zip(known.bytes()).all(is_like)
    };
    names.iter().any(is_one)
}

fn replace_forwarded(headers: &mut HeaderMap, peer: &Peer, host: Option<HeaderValue>) {
    headers.insert(X_FORWARDED_FOR, peer.for_value.clone());
    headers.insert(X_FORWARDED_PROTO, peer.proto.clone());
    match host {
        Some(host) => headers.insert(X_FORWARDED_HOST, host),
        None => headers.remove(X_FORWARDED_HOST),
    };
}

fn append_forwarded(headers: &mut HeaderMap, peer: &Peer, host: Option<HeaderValue>) {
    headers.append(X_FORWARDED_FOR, peer.for_value.clone());
    headers.entry(X_FORWARDED_PROTO).or_insert_with(|| peer.proto.clone());
    if let Some(host) = host {
        headers.entry(X_FORWARDED_HOST).or_insert(host);
    }
    if headers.contains_key(header::FORWARDED) {
        let ip = match peer.ip {
            IpAddr::V4(ip) => format!("for={ip}"),
            IpAddr::V6(ip) => format!("for=\"[{ip}]\""),
        };
        if let Ok(element) = HeaderValue::try_from(ip) {
            headers.append(header::FORWARDED, element);
        }
    }
}

/// The host of the client's request.
fn original_host<B>(request: &Request<B>) -> Option<HeaderValue> {
    match request.uri().authority() {
        Some(authority) => HeaderValue::try_from(authority.as_str()).ok(),
        None => request.headers().get(header::HOST).cloned(),
    }
}

fn via(version: Version) -> HeaderValue {
    HeaderValue::from_static(match version {
        Version::HTTP_10 => "1.0 semel",
        Version::HTTP_2 => "2.0 semel",
        _ => "1.1 semel",
    })
}

/// The target for the upstream: always a path, below the upstream's own. None if it would leave that
/// (`/../admin`), to a server that takes escaped slashes for slashes or to one that does not.
pub(crate) fn target(uri: &Uri, base: &str) -> Option<Uri> {
    if base.is_empty() && uri.authority().is_none() {
        return Some(uri.clone());
    }
    if !base.is_empty() && leaves_root(uri.path()) {
        return None;
    }
    let path = if uri.path() == "*" { "/" } else { uri.path() };
    let query = uri.query().map_or_else(String::new, |query| format!("?{query}"));
    Uri::builder().path_and_query(format!("{base}{path}{query}")).build().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(fields: &[(&str, &str)]) -> Request<()> {
        let mut request = Request::post("/a?b");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap()
    }

    fn prepared(fields: &[(&str, &str)], forwarded: Forwarded) -> HeaderMap {
        let mut request = request(fields);
        let peer = Peer::new("192.0.2.7".parse().unwrap(), true);
        prepare(&mut request, &peer, forwarded);
        request.into_parts().0.headers
    }

    #[test]
    fn forwarded_fields_of_a_client_are_replaced() {
        let lies = [
            ("x-forwarded-for", "10.0.0.1"),
            ("forwarded", "for=10.0.0.1"),
            ("x-forwarded-proto", "http"),
            ("x-forwarded-host", "evil"),
            ("x-real-ip", "10.0.0.1"),
            ("x-original-url", "/admin"),
            ("x-rewrite-url", "/admin"),
            ("x-forwarded-prefix", "/admin"),
            ("host", "shop.example"),
        ];
        let headers = prepared(&lies, Forwarded::Replace);
        assert_eq!(headers["x-forwarded-for"], "192.0.2.7");
        assert_eq!(headers["x-forwarded-proto"], "https");
        assert_eq!(headers["x-forwarded-host"], "shop.example");
        for name in
            ["forwarded", "x-real-ip", "x-original-url", "x-rewrite-url", "x-forwarded-prefix"]
        {
            assert!(!headers.contains_key(name), "{name}");
        }
    }

    #[test]
    fn the_host_of_the_target_replaces_the_host_field() {
        let peer = Peer::new("192.0.2.7".parse().unwrap(), true);
        for (target, expected) in [("http://a:80/x", "a:80"), ("/x", "b")] {
            let request = Request::post(target).header("host", "b").body(());
            let mut request = request.unwrap();
            prepare(&mut request, &peer, Forwarded::Replace);
            assert_eq!(request.headers()["host"], expected);
            assert_eq!(request.headers()["x-forwarded-host"], expected);
        }
    }

    #[test]
    fn forwarded_fields_of_a_trusted_proxy_are_appended_to() {
        let fields = [
            ("x-forwarded-for", "203.0.113.9"),
            ("forwarded", "for=203.0.113.9"),
            ("x-forwarded-proto", "http"),
            ("host", "inner"),
            ("x-forwarded-host", "shop.example"),
        ];
        let headers = prepared(&fields, Forwarded::Append);
        let all: Vec<_> = headers.get_all("x-forwarded-for").iter().collect();
        assert_eq!(all, ["203.0.113.9", "192.0.2.7"]);
        assert_eq!(headers.get_all("forwarded").iter().count(), 2);
        assert_eq!(headers["x-forwarded-proto"], "http");
        assert_eq!(headers["x-forwarded-host"], "shop.example");
    }

    #[test]
    fn misspelled_forwarded_fields_are_removed() {
        let lies = [
            ("x_forwarded_for", "10.0.0.1"),
            ("x-forwarded_proto", "http"),
            ("idempotency_fence", "7"),
            ("idempotency_key", "other"),
            ("idempotency-key", "mine"),
            ("x_request_id", "kept"),
        ];
        for forwarded in [Forwarded::Replace, Forwarded::Append] {
            let mut headers = prepared(&lies, forwarded);
            end(&mut headers);
            let left: Vec<_> =
                headers.keys().map(HeaderName::as_str).filter(|name| name.contains('_')).collect();
            assert_eq!(left, ["x_request_id"]);
            assert_eq!(headers["idempotency-key"], "mine");
        }
    }

    #[test]
    fn a_trusted_proxy_names_the_client_address() {
        let peer = Peer::new("192.0.2.7".parse().unwrap(), true);
        let ip = |values: &[&str], forwarded| {
            let fields: Vec<_> = values.iter().map(|value| ("x-forwarded-for", *value)).collect();
            client_ip(request(&fields).headers(), &peer, forwarded).to_string()
        };
        let append = Forwarded::Append;
        assert_eq!(ip(&["203.0.113.9"], Forwarded::Replace), "192.0.2.7");
        assert_eq!(ip(&["10.0.0.1, 203.0.113.9"], append), "203.0.113.9");
        assert_eq!(ip(&["10.0.0.1", "203.0.113.9"], append), "203.0.113.9");
        assert_eq!(ip(&["203.0.113.9:4711"], append), "203.0.113.9");
        assert_eq!(ip(&["[2001:db8::1]:4711"], append), "2001:db8::1");
        for nothing in [&[][..], &["unknown"], &[""]] {
            assert_eq!(ip(nothing, append), "192.0.2.7");
        }
    }

    #[test]
    fn hop_by_hop_headers_are_removed() {
        let fields =
            [("connection", "upgrade, x-a"), ("upgrade", "h2c"), ("x-a", "1"), ("keep-alive", "5")];
        let headers = prepared(&fields, Forwarded::Replace);
        for name in ["connection", "upgrade", "x-a", "keep-alive"] {
            assert!(!headers.contains_key(name), "{name}");
        }
        assert_eq!(headers["via"], "1.1 semel");
    }

    #[test]
    fn targets_are_paths_below_the_base() {
        let target = |uri: &str, base| {
            target(&uri.parse().unwrap(), base).map_or_else(String::new, |uri| uri.to_string())
        };
        assert_eq!(target("/a?b=1", ""), "/a?b=1");
        assert_eq!(target("/a?b=1", "/base"), "/base/a?b=1");
        assert_eq!(target("http://other/a?b", ""), "/a?b");
        assert_eq!(target("http://other", ""), "/");
        assert_eq!(target("http://other?b", "/base"), "/base/?b");
        assert_eq!(target("*", ""), "*");
        assert_eq!(target("/a/../b", "/base"), "/base/a/../b");
        for way_out in [
            "/..",
            "/../a",
            "/a/../../b",
            "/%2e%2E/a",
            "/..%2fa",
            "/..%5Ca",
            "/..;/a",
            "/;x/../a",
            "/a%5Cb%2F../../c",
            "/%u002e%u002e/a",
        ] {
            assert_eq!(target(way_out, "/base"), "", "{way_out}");
            assert_eq!(target(way_out, ""), way_out);
        }
    }
}
