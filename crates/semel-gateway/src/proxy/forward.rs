//! What changes in a message on its way through.

use std::net::{IpAddr, SocketAddr};

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Request, Uri, Version};
use semel_http::headers::{IDEMPOTENCY_FENCE, IDEMPOTENCY_KEY, remove_hop_by_hop};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");
const X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");

/// The names that an upstream may take for our word.
static OURS: [HeaderName; 7] = [
    X_FORWARDED_FOR,
    X_FORWARDED_PROTO,
    X_FORWARDED_HOST,
    X_FORWARDED_PORT,
    X_REAL_IP,
    IDEMPOTENCY_KEY,
    IDEMPOTENCY_FENCE,
];

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

/// The client's address. A proxy in front that is believed says who its client is; then the last
/// address in `X-Forwarded-For` is the one that it saw itself.
pub(crate) fn client_ip(headers: &HeaderMap, peer: &Peer, forwarded: Forwarded) -> IpAddr {
    let told = || {
        let value = headers.get_all(X_FORWARDED_FOR).iter().next_back()?.to_str().ok()?;
        let last = value.rsplit(',').next()?.trim();
        let with_port = || last.parse::<SocketAddr>().ok().map(|address| address.ip());
        Some(last.parse::<IpAddr>().ok().or_else(with_port)?.to_canonical())
    };
    match forwarded {
        Forwarded::Replace => peer.ip,
        Forwarded::Append => told().unwrap_or(peer.ip),
    }
}

/// Makes a client's headers fit for the upstream, but for the ones that depend on it.
pub(crate) fn prepare<B>(request: &mut Request<B>, peer: &Peer, forwarded: Forwarded) {
    let host = original_host(request);
    let via = via(request.version());
    let headers = request.headers_mut();
    remove_hop_by_hop(headers);
    remove_claims(headers, forwarded);
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

/// Removes what a client says about itself, and fields that an upstream may take for ours: many
/// read `X_Forwarded_For` as `X-Forwarded-For`.
fn remove_claims(headers: &mut HeaderMap, forwarded: Forwarded) {
    let is_claim = |name: &HeaderName| {
        // What is not replaced by our own word.
        let is_about_itself =
            matches!(name.as_str(), "forwarded" | "x-forwarded-port" | "x-real-ip");
        (is_about_itself && forwarded == Forwarded::Replace) || is_misspelled(name.as_str())
    };
    // Few clients send them: looking at the names that are there is cheaper than asking for each.
    let claims: Vec<HeaderName> = headers.keys().filter(|name| is_claim(name)).cloned().collect();
    for name in &claims {
        headers.remove(name);
    }
}

/// Is it one of the names that mean something here, but for its underscores?
fn is_misspelled(name: &str) -> bool {
    let spelled_right = || HeaderName::try_from(name.replace('_', "-")).ok();
    name.contains('_') && spelled_right().is_some_and(|name| OURS.contains(&name))
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
    fn underscores_do_not_get_a_lie_through() {
        let lies = [
            ("x_forwarded_for", "10.0.0.1"),
            ("x-forwarded_proto", "http"),
            ("idempotency_fence", "7"),
            ("idempotency_key", "other"),
            ("idempotency-key", "mine"),
            ("x_request_id", "kept"),
        ];
        for forwarded in [Forwarded::Replace, Forwarded::Append] {
            let headers = prepared(&lies, forwarded);
            let left: Vec<_> =
                headers.keys().map(HeaderName::as_str).filter(|name| name.contains('_')).collect();
            assert_eq!(left, ["x_request_id"]);
            assert_eq!(headers["idempotency-key"], "mine");
        }
    }

    #[test]
    fn a_proxy_in_front_says_who_its_client_is() {
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
