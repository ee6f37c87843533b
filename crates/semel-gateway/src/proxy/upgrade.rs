//! WebSocket: a connection that becomes a tunnel once both sides agree.

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
use semel_http::OutcomeKind;
use semel_http::problem::{Code, Problem};
use tokio::io::copy_bidirectional;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::upstream::{Body, Upstream};
use super::{UpstreamBody, answer, too_late};
use crate::server::{self, Activity, Kind, Place};

/// A client that wants to go on with WebSocket, as an extension of its request.
#[derive(Clone)]
pub(crate) struct Upgrade {
    pub(crate) client: OnUpgrade,
    pub(crate) activity: Arc<Activity>,
    /// Ends the tunnel when the gateway goes down.
    pub(crate) closing: CancellationToken,
    /// A tunnel counts as the connection that it was.
    pub(crate) place: Arc<Place>,
}

// === impl Upgrade ===

impl Upgrade {
    /// May this request become a tunnel? `GET` with `Upgrade: websocket` and nothing else (RFC 6455).
    /// Others, such as `h2c`, would let a client speak to the upstream past the gateway.
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

    /// Asks the upstream, on a connection of its own, and tunnels if it agrees.
    pub(crate) async fn pass(
        self,
        upstream: &Upstream,
        mut request: Request<Body>,
        limit: Duration,
    ) -> Response<UpstreamBody> {
        let headers = request.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        let asked = async {
            let io = upstream.open().await.map_err(|error| error.to_string())?;
            let handshake = http1::handshake(TokioIo::new(io)).await;
            let (mut sender, connection) = handshake.map_err(|error| error.to_string())?;
            let connection = tokio::spawn(connection.with_upgrades());
            let response = sender.send_request(request).await.map_err(|error| error.to_string());
            response.map(|response| (response, connection))
        };
        match timeout(limit, asked).await {
            Err(_) => too_late(limit, true),
            Ok(Err(error)) => {
                tracing::warn!(error, "the upstream cannot be reached");
                let problem =
                    Problem::new(Code::UpstreamUnreachable, "the upstream did not answer");
                answer(problem, OutcomeKind::FailedForNow)
            }
            Ok(Ok((response, _connection)))
                if response.status() != StatusCode::SWITCHING_PROTOCOLS =>
            {
                refused(response).await
            }
            Ok(Ok((mut response, _connection))) => {
                let other = hyper::upgrade::on(&mut response);
                tokio::spawn(self.tunnel(other));
                let mut response = response.map(|_| UpstreamBody::from(bytes::Bytes::new()));
                let headers = response.headers_mut();
                semel_http::headers::remove_hop_by_hop(headers);
                headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
                headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
                response
            }
        }
    }

    async fn tunnel(self, upstream: OnUpgrade) {
        let Self { client, activity, closing, place } = self;
        let both = async { tokio::try_join!(client, upstream) };
        let both = tokio::select! { both = both => both, () = closing.cancelled() => return };
        let (client, upstream) = match both {
            Ok(both) => both,
            Err(error) => return tracing::debug!(%error, "no tunnel"),
        };
        activity.becomes(Kind::Tunnel);
        let (mut client, mut upstream) = (TokioIo::new(client), TokioIo::new(upstream));
        let mut copy = pin!(copy_bidirectional(&mut client, &mut upstream));
        poll_fn(|context| {
            activity.attend(context.waker());
            let is_over = closing.is_cancelled() || activity.overdue(server::now()).is_some();
            if activity.was_called() && is_over {
                tracing::debug!("a tunnel was closed");
                return Poll::Ready(());
            }
            // Ends when both sides have closed, or with an error that concerns nobody else.
            copy.as_mut().poll(context).map(drop)
        })
        .await;
        drop(place);
    }
}

/// The upstream's own answer to a wish it did not grant; it is short, and its connection is not
/// used again.
async fn refused(response: Response<hyper::body::Incoming>) -> Response<UpstreamBody> {
    const MAX: u64 = 64 * 1024;
    let (mut parts, body) = response.into_parts();
    super::forward::clean(&mut parts.headers);
    let too_large = body.size_hint().lower() > MAX;
    let read = http_body_util::Limited::new(body, usize::try_from(MAX).unwrap_or(usize::MAX));
    let read = timeout(Duration::from_secs(10), http_body_util::BodyExt::collect(read));
    match read.await {
        Ok(Ok(body)) if !too_large => Response::from_parts(parts, body.to_bytes().into()),
        _ => {
            let problem = Problem::new(Code::UpstreamUnreachable, "the upstream broke off");
            answer(problem, OutcomeKind::Unknown)
        }
    }
}
