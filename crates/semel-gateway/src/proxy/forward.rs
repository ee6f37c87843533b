//! What changes in a message on its way through.

use std::net::IpAddr;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Request, Uri, Version};
use semel_http::headers::remove_hop_by_hop;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");
const X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// Who a connection belongs to, as the upstream is told.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) ip: IpAddr,
    /// `ip` as a header value, made once per connection.
    for_value: HeaderValue,
    proto: HeaderValue,
}

/// What becomes of the `Forwarded` and `X-Forwarded-…` fields that a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarded {
    /// They are replaced: clients cannot be trusted to say who they are.
    Replace,
    /// They are added to: there is another proxy in front that sets them.
    Append,
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

/// Makes a client's headers fit for the upstream, but for the ones that depend on it.
pub(crate) fn prepare<B>(request: &mut Request<B>, peer: &Peer, forwarded: Forwarded) {
    let host = original_host(request);
    let via = via(request.version());
    let headers = request.headers_mut();
    remove_hop_by_hop(headers);
    match forwarded {
        Forwarded::Replace => replace_forwarded(headers, peer, host),
        Forwarded::Append => append_forwarded(headers, peer, host),
    }
    headers.append(header::VIA, via);
}

/// Makes a reply's headers fit for the client. Where a reply is chunked, a length that it gives too
/// means nothing (RFC 9112, section 6.3), and would cut the body on its way.
pub(crate) fn clean(headers: &mut HeaderMap) {
    if headers.contains_key(header::TRANSFER_ENCODING) {
        headers.remove(header::CONTENT_LENGTH);
    }
    remove_hop_by_hop(headers);
}

fn replace_forwarded(headers: &mut HeaderMap, peer: &Peer, host: Option<HeaderValue>) {
    // Few clients send them: looking at the names that are there is cheaper than asking for each.
    let claims =
        |name: &HeaderName| [header::FORWARDED, X_FORWARDED_PORT, X_REAL_IP].contains(name);
    let claimed: Vec<HeaderName> = headers.keys().filter(|name| claims(name)).cloned().collect();
    for name in &claimed {
        headers.remove(name);
    }
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

/// The host that the client asked for.
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

/// The target for the upstream: always a path, below the upstream's own.
pub(crate) fn target(uri: &Uri, base: &str) -> Result<Uri, http::Error> {
    let path_and_query = uri.path_and_query().map_or("/", |path| path.as_str());
    if base.is_empty() && uri.authority().is_none() {
        return Ok(uri.clone());
    }
    let path_and_query = if path_and_query == "*" { "/" } else { path_and_query };
    Uri::builder().path_and_query(format!("{base}{path_and_query}")).build()
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
    fn a_client_cannot_say_who_it_is() {
        let lies = [
            ("x-forwarded-for", "10.0.0.1"),
            ("forwarded", "for=10.0.0.1"),
            ("x-forwarded-proto", "http"),
            ("x-forwarded-host", "evil"),
            ("x-real-ip", "10.0.0.1"),
            ("host", "shop.example"),
        ];
        let headers = prepared(&lies, Forwarded::Replace);
        assert_eq!(headers["x-forwarded-for"], "192.0.2.7");
        assert_eq!(headers["x-forwarded-proto"], "https");
        assert_eq!(headers["x-forwarded-host"], "shop.example");
        assert!(!headers.contains_key("forwarded") && !headers.contains_key("x-real-ip"));
    }

    #[test]
    fn a_proxy_in_front_is_believed_if_asked() {
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
    fn what_concerns_one_connection_stays_there() {
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
        let target = |uri: &str, base| target(&uri.parse().unwrap(), base).unwrap().to_string();
        assert_eq!(target("/a?b=1", ""), "/a?b=1");
        assert_eq!(target("/a?b=1", "/base"), "/base/a?b=1");
        assert_eq!(target("http://other/a?b", ""), "/a?b");
        assert_eq!(target("http://other", ""), "/");
        assert_eq!(target("*", ""), "*");
    }
}
