//! The way in: every request of a connection passes here first.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, Uri, Version, header};
use hyper::body::Incoming;
use pin_project_lite::pin_project;
use semel_http::problem::{Code, Problem};
use semel_http::{ClientIp, ResponseBody, ResponseFuture};
use tower_service::Service as _;

use super::activity::Activity;
use super::body::{ClientBody, InService, Served};
use super::{Place, Shared, streams};
use crate::gateway::Stack;
use crate::proxy::forward::{self, Peer};
use crate::proxy::upgrade::Upgrade;
use crate::proxy::{Proxy, UpstreamBody};

/// The service of one connection.
pub(crate) struct Entry {
    pub(crate) shared: Shared,
    pub(crate) peer: Peer,
    pub(crate) activity: Arc<Activity>,
    pub(crate) place: Arc<Place>,
}

type Inner = ResponseFuture<
    <Proxy as tower_service::Service<Request<crate::proxy::upstream::Body>>>::Future,
    UpstreamBody,
    Infallible,
>;

pin_project! {
    /// The response to one request.
    pub(crate) struct Answering {
        #[pin]
        way: Way,
        request: Option<InService>,
        version: Version,
        activity: Arc<Activity>,
    }
}

pin_project! {
    #[project = WayProjection]
    enum Way {
        Stack { #[pin] future: Inner },
        Refused { response: Option<Response<ResponseBody<UpstreamBody>>> },
    }
}

// === impl Entry ===

impl hyper::service::Service<Request<Incoming>> for Entry {
    type Response = Response<Served<ResponseBody<UpstreamBody>>>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, request: Request<Incoming>) -> Answering {
        let in_service = InService::new(self.activity.clone());
        let version = request.version();
        let activity = match version {
            Version::HTTP_2 => streams::begin(&self.activity),
            _ => self.activity.clone(),
        };
        let way = match check(&request) {
            Ok(()) => Way::Stack { future: self.enter(request, activity.clone()) },
            Err(problem) => Way::Refused { response: Some(refuse(problem, version)) },
        };
        Answering { way, request: Some(in_service), version, activity }
    }
}

impl Entry {
    fn enter(&self, mut request: Request<Incoming>, activity: Arc<Activity>) -> Inner {
        let stack = self.shared.stack.load();
        let Stack { service, forwarded, needs_client_ip, routes, .. } = &*stack;
        if request.headers().contains_key(header::UPGRADE) {
            self.offer_upgrade(&mut request, routes);
        }
        if *needs_client_ip {
            let ip = forward::client_ip(request.headers(), &self.peer, *forwarded);
            request.extensions_mut().insert(ClientIp(ip));
        }
        forward::prepare(&mut request, &self.peer, *forwarded);
        let request = request.map(|body| ClientBody::new(body, activity));
        // The service is always ready.
        service.clone().call(request)
    }

    /// Only a request that is passed on unprotected may become a tunnel.
    fn offer_upgrade(&self, request: &mut Request<Incoming>, routes: &semel_http::Routes) {
        let route = routes.find(request.method(), request.uri().path());
        let is_passed = route.passes(request.method());
        if is_passed && request.version() == Version::HTTP_11 && Upgrade::wanted(request) {
            let client = hyper::upgrade::on(&mut *request);
            request.extensions_mut().insert(Upgrade {
                client,
                activity: self.activity.clone(),
                closing: self.shared.closing.clone(),
                place: self.place.clone(),
            });
        }
    }
}

/// Refuses what cannot be passed on without doubt.
fn check<B>(request: &Request<B>) -> Result<(), Problem> {
    let refuse = |detail: &str| Err(Problem::new(Code::RequestRefused, detail));
    if request.method() == Method::CONNECT {
        return refuse("CONNECT is not served here");
    }
    if !is_target(request.method(), request.uri()) {
        return refuse("the target of the request is neither a path nor a URL");
    }
    if is_ambiguous(request.uri().path()) {
        return refuse("the path has `..` after an empty segment, which servers read in two ways");
    }
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let (first, second) = (hosts.next(), hosts.next());
    if second.is_some() {
        return refuse("the header field Host comes more than once");
    }
    if request.version() == Version::HTTP_11 && first.is_none() {
        return refuse("the header field Host is missing");
    }
    if first.is_some_and(|host| !host.is_empty() && !is_host(host.as_bytes())) {
        return refuse("the header field Host is not a host");
    }
    let mut codings = request.headers().get_all(header::TRANSFER_ENCODING).iter();
    let (first, second) = (codings.next(), codings.next());
    let is_chunked = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    if second.is_some() || first.is_some_and(|coding| !is_chunked(coding)) {
        return refuse("the only transfer coding that is understood is chunked");
    }
    Ok(())
}

/// Is it a path, a URL, or the `*` of OPTIONS? Not what a CONNECT would have.
fn is_target(method: &Method, uri: &Uri) -> bool {
    let has_right_host =
        uri.authority().is_none_or(|authority| is_host(authority.as_str().as_bytes()));
    let is_star = uri.path() == "*";
    let is_authority = uri.scheme().is_none() && uri.authority().is_some();
    has_right_host && !is_authority && (!is_star || method == Method::OPTIONS)
}

/// Does what `..` leads to depend on whether empty segments count? To some servers `/a//../b` is
/// `/b`, and to others `/a/b`: it could come under a route of one and reach the other.
fn is_ambiguous(path: &str) -> bool {
    let is_up = |segment: &str| segment.to_ascii_lowercase().replace("%2e", ".") == "..";
    let mut segments = path.split('/').skip(1);
    path.contains("//") && segments.any(str::is_empty) && segments.any(is_up)
}

/// Could it be a name or an address, with or without a port, and without a user? What else it may
/// be is the upstream's to say; what two servers could read in two ways is not passed on.
fn is_host(host: &[u8]) -> bool {
    let (name, port) = match host {
        [b'[', rest @ ..] => match rest.iter().position(|byte| *byte == b']') {
            Some(end) => (&rest[..end], &rest[end + 1..]),
            None => return false,
        },
        host => {
            let end = host.iter().position(|byte| *byte == b':').unwrap_or(host.len());
            host.split_at(end)
        }
    };
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:".contains(byte);
    let is_port = matches!(port, [] | [b':', ..])
        && port.len() <= 6
        && port.iter().skip(1).all(u8::is_ascii_digit);
    !name.is_empty() && name.iter().all(is_name) && is_port
}

fn refuse(problem: Problem, version: Version) -> Response<ResponseBody<UpstreamBody>> {
    let mut response = problem.into_response();
    close(&mut response, version);
    response
}

/// Ends the connection after this response. HTTP/2 needs no such thing.
fn close<B>(response: &mut Response<B>, version: Version) {
    if version <= Version::HTTP_11 {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
}

// === impl Answering ===

impl Future for Answering {
    type Output = Result<Response<Served<ResponseBody<UpstreamBody>>>, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut response = match this.way.project() {
            WayProjection::Stack { future } => ready!(future.poll(context))?,
            WayProjection::Refused { response } => {
                response.take().unwrap_or_else(|| Response::new(ResponseBody::from(Bytes::new())))
            }
        };
        // Where a body ends must be beyond doubt, or else nothing may follow it.
        if this.activity.is_upload_doubtful() || this.activity.lingers() {
            close(&mut response, *this.version);
        }
        // Whoever reads it from here on takes it piece by piece.
        if let Some(reply) = response.body_mut().unread_mut() {
            reply.pass_on();
        }
        // An answer that ends the connection may leave a body unread behind it.
        if response.headers().contains_key(header::CONNECTION) && response.status() != 101 {
            this.activity.linger();
        }
        let request = this.request.take().unwrap_or_else(|| InService::new(this.activity.clone()));
        Poll::Ready(Ok(response.map(|body| Served::new(body, request, this.activity))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_up_over_an_empty_segment_is_ambiguous() {
        for path in ["/a//../b", "/v1/x//../../charges", "//%2e%2E/b", "/a//b/.%2e/c", "/a//.."] {
            assert!(is_ambiguous(path), "{path}");
        }
        for path in ["/", "//", "/a//b", "/a/../b", "/../a//b", "/a//...", "/a//b..", "*"] {
            assert!(!is_ambiguous(path), "{path}");
        }
    }

    #[test]
    fn hosts_are_told_from_what_is_none() {
        for host in ["a", "shop.example:8080", "127.0.0.1", "[::1]:80", "[::1]", "a:"] {
            assert!(is_host(host.as_bytes()), "{host}");
        }
        for host in [
            "", ":80", "a b", "a/b", "user@a", "a:b", "a:80:90", "[::1", "[::1]x", "a\\b", "\u{e9}",
        ] {
            assert!(!is_host(host.as_bytes()), "{host}");
        }
    }
}
