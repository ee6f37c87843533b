//! WebSocket: a connection that becomes a tunnel once the upstream has switched protocols.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::header::{self, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body::Body as _;
use hyper::client::conn::http1;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use semel_http::ExecutionStart;
use tokio::io::copy_bidirectional;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::obtain::{failed, too_many};
use super::permits::NoPermit;
use super::upstream::Body;
use super::{Shared, UpstreamBody};
use crate::client::{Activity, ActivityKind, ConnectionPermit, watch};
use crate::failure::Failure;

/// A client's side of a tunnel, should the upstream agree to WebSocket.
pub(crate) struct Upgrade {
    pub(crate) client: OnUpgrade,
    /// Ends the tunnel at shutdown.
    pub(crate) closing: CancellationToken,
    /// A tunnel counts as the connection that it was.
    pub(crate) permit: Arc<ConnectionPermit>,
}

// === impl Upgrade ===

impl Upgrade {
    /// Whether the request asks for a tunnel: a `GET` with `Upgrade: websocket` and nothing else (RFC 6455). Others,
    /// such as `h2c`, would let a client bypass the gateway.
    pub(crate) fn wanted<B>(request: &Request<B>) -> bool {
        if request.method() != Method::GET {
            return false;
        }
        let mut values = request.headers().get_all(header::UPGRADE).iter();
        let is_websocket = matches!(
            (values.next(), values.next()),
            (Some(value), None) if value.as_bytes().eq_ignore_ascii_case(b"websocket")
        );
        let asks = |value: &HeaderValue| {
            let tokens = value.as_bytes().split(|byte| *byte == b',');
            tokens.map(<[u8]>::trim_ascii).any(|token| token.eq_ignore_ascii_case(b"upgrade"))
        };
        is_websocket && request.headers().get_all(header::CONNECTION).iter().any(asks)
    }

    /// Sends the request on a connection of its own, and tunnels if the upstream switches protocols.
    pub(crate) async fn pass(
        self,
        proxy: &Shared,
        mut request: Request<Body>,
        limit: Duration,
        activity: Arc<Activity>,
    ) -> Response<UpstreamBody> {
        let headers = request.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        let asked = async {
            let upstream = &proxy.upstream;
            let until = Instant::now() + upstream.connect_timeout;
            // A tunnel cannot use a pooled connection.
            let permit = upstream.permits.acquire(None, until).await;
            let permit = permit.map_err(|NoPermit| too_many(upstream.permits.max()))?;
            let io = upstream.open().await.map_err(|error| failed(&error))?;
            let not_sent = |error: hyper::Error| Failure::NotSent(error.to_string());
            let (mut sender, connection) =
                http1::handshake(TokioIo::new(io)).await.map_err(not_sent)?;
            let connection = tokio::spawn(connection.with_upgrades());
            if let Some(start) = request.extensions().get::<ExecutionStart>() {
                start.log();
            }
            let response = sender.send_request(request).await.map_err(not_sent);
            response.map(|response| (response, connection, permit))
        };
        match timeout(limit, asked).await {
            Err(_) => proxy.failed(&Failure::Late { limit }, true),
            Ok(Err(Failure::NotSent(error))) => proxy.failed(&Failure::NoTunnel(error), true),
            Ok(Err(failure)) => proxy.failed(&failure, true),
            Ok(Ok((response, _connection, _permit)))
                if response.status() != StatusCode::SWITCHING_PROTOCOLS =>
            {
                refused(response).await
            }
            Ok(Ok((mut response, _connection, permit))) => {
                let other = hyper::upgrade::on(&mut response);
                tokio::spawn(async move {
                    self.tunnel(other, activity).await;
                    drop(permit);
                });
                let mut response = response.map(|_| UpstreamBody::from(bytes::Bytes::new()));
                let headers = response.headers_mut();
                semel_http::headers::remove_hop_by_hop(headers);
                headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
                headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
                response
            }
        }
    }

    async fn tunnel(self, upstream: OnUpgrade, activity: Arc<Activity>) {
        let Self { client, closing, permit } = self;
        let both = async { tokio::try_join!(client, upstream) };
        let both = tokio::select! { both = both => both, () = closing.cancelled() => return };
        let (client, upstream) = match both {
            Ok(both) => both,
            Err(error) => return tracing::debug!(%error, "no tunnel"),
        };
        activity.becomes(ActivityKind::Tunnel);
        let (mut client, mut upstream) = (TokioIo::new(client), TokioIo::new(upstream));
        let mut copy = pin!(copy_bidirectional(&mut client, &mut upstream));
        poll_fn(|context| {
            activity.register_waker(context.waker());
            let is_over = closing.is_cancelled() || activity.overdue(watch::now()).is_some();
            if activity.take_woken() && is_over {
                tracing::debug!("a tunnel was closed");
                return Poll::Ready(());
            }
            // Ends when both sides have closed, or with an error of this tunnel alone.
            copy.as_mut().poll(context).map(drop)
        })
        .await;
        drop(permit);
    }
}

/// The upstream's response if it does not switch protocols. It must be short; its connection is not reused.
async fn refused(response: Response<hyper::body::Incoming>) -> Response<UpstreamBody> {
    const MAX: u64 = 64 * 1024;
    let (mut parts, body) = response.into_parts();
    super::forward::clean(&mut parts.headers);
    let too_large = body.size_hint().lower() > MAX;
    let read = http_body_util::Limited::new(body, usize::try_from(MAX).unwrap_or(usize::MAX));
    let read = timeout(Duration::from_secs(10), http_body_util::BodyExt::collect(read));
    match read.await {
        Ok(Ok(body)) if !too_large => Response::from_parts(parts, body.to_bytes().into()),
        _ => Failure::ReplyBroken.response(true),
    }
}
