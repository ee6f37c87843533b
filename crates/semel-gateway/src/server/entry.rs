//! The first checks of every request, and its way into the layer.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, Uri, Version, header};
use hyper::body::Incoming;
use pin_project_lite::pin_project;
use semel_http::{ClientIp, ResponseBody, ResponseFuture, goes_up_after_empty_segment};
use tower_service::Service as _;

use super::{Shared, http2};
use crate::client::{
    Activity, ClientBody, ConnectionPermit, Full, InService, InWork, Load, Served, streams,
};
use crate::failure::{Busy, Failure};
use crate::limit::Limit;
use crate::pipeline::{Methods, Pipeline};
use crate::proxy::forward::{self, Peer};
use crate::proxy::upgrade::Upgrade;
use crate::proxy::{Proxy, RequestContext, UpstreamBody};

/// The service of one connection.
pub(crate) struct Entry {
    pub(crate) shared: Shared,
    pub(crate) peer: Peer,
    pub(crate) activity: Arc<Activity>,
    pub(crate) permit: Arc<ConnectionPermit>,
    /// Counts the requests in work.
    pub(crate) load: Arc<Load>,
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
        // Until the response begins.
        in_work: Option<Arc<InWork>>,
    }

    impl PinnedDrop for Answering {
        fn drop(this: Pin<&mut Self>) {
            let this = this.project();
            if let (Some(request), Some(in_work)) = (this.request, this.in_work)
                && in_work.load().was_reset()
            {
                request.connection().wake();
            }
        }
    }
}

pin_project! {
    #[project = WayProjection]
    enum Way {
        Pipeline { #[pin] future: Inner },
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
        let pipeline = self.shared.pipeline.load();
        let admitted = check(&request, &pipeline.methods)
            .and_then(|()| self.begin(&request, &pipeline.routes));
        let (way, in_work) = match admitted {
            Ok(in_work) => {
                let future = self.enter(&pipeline, request, &activity, &in_work);
                (Way::Pipeline { future }, Some(in_work))
            }
            Err(failure) => {
                let mut response = failure.response(true);
                close(&mut response, version);
                (Way::Refused { response: Some(response) }, None)
            }
        };
        Answering { way, request: Some(in_service), version, activity, in_work }
    }
}

impl Entry {
    /// Counts one more request in work, unless there are too many.
    fn begin<B>(
        &self,
        request: &Request<B>,
        routes: &semel_http::Routes,
    ) -> Result<Arc<InWork>, Failure> {
        let begun = self.load.begin().or_else(|full| match full {
            // For instance health checks of a load balancer, which shares its address with all its clients.
            Full::Address(_) if passes(request, routes) => self.load.begin_passing(),
            full => Err(full),
        });
        begun.map_err(|full| self.too_busy(full))
    }

    fn too_busy(&self, full: Full) -> Failure {
        let limits = self.load.limits();
        Failure::Busy(match full {
            Full::Connection => {
                Limit::ExecutionsPerConnection.reached();
                Busy::Connection { max: limits.in_work }
            }
            Full::Address(count) => {
                Limit::ExecutionsLeftBehind.reached();
                self.shared.leftovers.log_refused(self.peer.ip, count, limits.left_behind);
                Busy::Address { count }
            }
        })
    }

    fn enter(
        &self,
        pipeline: &Pipeline,
        mut request: Request<Incoming>,
        activity: &Arc<Activity>,
        in_work: &Arc<InWork>,
    ) -> Inner {
        let Pipeline { service, forwarded, needs_client_ip, routes, .. } = pipeline;
        if request.version() == Version::HTTP_2 {
            http2::join_cookies(request.headers_mut());
        }
        let upgrade = if request.headers().contains_key(header::UPGRADE) {
            self.offer_upgrade(&mut request, routes)
        } else {
            None
        };
        // A tunnel is no execution that is left behind.
        let in_work = upgrade.is_none().then(|| in_work.clone());
        let context = RequestContext { activity: activity.clone(), in_work, upgrade };
        if *needs_client_ip {
            let ip = forward::client_ip(request.headers(), &self.peer, *forwarded);
            request.extensions_mut().insert(ClientIp(ip));
        }
        forward::prepare(&mut request, &self.peer, *forwarded);
        let request = request.map(|body| ClientBody::new(body, activity.clone()));
        let mut service = service.clone();
        service.inner_mut().context = Some(context);
        // The service is always ready.
        service.call(request)
    }

    /// The client's side of a tunnel. Only an unprotected request may become one.
    fn offer_upgrade(
        &self,
        request: &mut Request<Incoming>,
        routes: &semel_http::Routes,
    ) -> Option<Upgrade> {
        let may_upgrade = passes(request, routes)
            && request.version() == Version::HTTP_11
            && Upgrade::wanted(request);
        may_upgrade.then(|| Upgrade {
            client: hyper::upgrade::on(&mut *request),
            closing: self.shared.closing.clone(),
            permit: self.permit.clone(),
        })
    }
}

/// Whether the request reaches the upstream without protection, whatever its headers are.
fn passes<B>(request: &Request<B>, routes: &semel_http::Routes) -> bool {
    routes.find(request.method(), request.uri().path()).passes(request.method())
}

/// Refuses a request that two servers could read in two ways.
fn check<B>(request: &Request<B>, methods: &Methods) -> Result<(), Failure> {
    let refuse = |why| Err(Failure::Ambiguous(why));
    if request.method() == Method::CONNECT {
        return refuse("CONNECT is not served here");
    }
    if !methods.has(request.method()) {
        return refuse(
            "the method is not a registered one in upper case; the operator of this gateway can add \
             others with the setting methods",
        );
    }
    if !is_target(request.method(), request.uri()) {
        return refuse("the target of the request is neither a path nor a URL");
    }
    if goes_up_after_empty_segment(request.uri().path()) {
        return refuse("the path has `..` after an empty segment, which servers read in two ways");
    }
    if request.version() == Version::HTTP_2
        && let Some(doubt) = http2::doubt(request.headers())
    {
        return refuse(doubt);
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

/// Whether it is a path, a URL, or the `*` of OPTIONS, and not the authority of a CONNECT.
fn is_target(method: &Method, uri: &Uri) -> bool {
    let has_right_host =
        uri.authority().is_none_or(|authority| is_host(authority.as_str().as_bytes()));
    let is_star = uri.path() == "*";
    let is_authority = uri.scheme().is_none() && uri.authority().is_some();
    has_right_host && !is_authority && (!is_star || method == Method::OPTIONS)
}

/// Whether it is a name or an address, with or without a port, and without a user. Further checks are the upstream's; a
/// host that two servers could read in two ways is refused here.
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

/// Ends the connection after this response. Not needed with HTTP/2.
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
            WayProjection::Pipeline { future } => ready!(future.poll(context))?,
            WayProjection::Refused { response } => {
                response.take().unwrap_or_else(|| Response::new(ResponseBody::from(Bytes::new())))
            }
        };
        // If the end of a body is in doubt, no request may follow it.
        if this.activity.is_upload_doubtful() || this.activity.lingers() {
            close(&mut response, *this.version);
        }
        // From here on the reply is streamed.
        if let Some(reply) = response.body_mut().unread_mut() {
            reply.pass_on();
        }
        // A response that ends the connection may leave a body unread.
        if response.headers().contains_key(header::CONNECTION) && response.status() != 101 {
            this.activity.linger();
        }
        if let Some(in_work) = this.in_work.take() {
            in_work.load().answered();
        }
        let request = this.request.take().unwrap_or_else(|| InService::new(this.activity.clone()));
        Poll::Ready(Ok(response.map(|body| Served::new(body, request, this.activity))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_hosts_are_distinguished_from_invalid_ones() {
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
