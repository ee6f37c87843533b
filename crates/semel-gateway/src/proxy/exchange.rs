//! One request to the upstream, and the head of its reply.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use http::{Request, Response};
use hyper::body::Incoming;

use super::pool::Pool;
use super::upstream::{Body, Upstream, Wire};

/// Why there is no reply.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The upstream surely has not seen the request.
    NotSent(String),
    /// It may have.
    Lost(hyper::Error),
}

/// Sends a request on an idle connection, or on a new one.
///
/// An idle connection may have been closed by the upstream meanwhile. hyper looks before it writes:
/// then the request comes back untouched, and goes out on another connection. What has been
/// written, even in part, is never sent twice.
pub(crate) async fn exchange(
    upstream: &Upstream,
    pool: Pool,
    mut request: Request<Body>,
) -> Result<(Response<Incoming>, Box<Wire>), Failure> {
    loop {
        let (wire, is_fresh) = match pool.take() {
            Some(wire) => (wire, false),
            None => match upstream.connect().await {
                Ok(wire) => (wire, true),
                Err(error) => return Err(Failure::NotSent(error.to_string())),
            },
        };
        match send(wire, request).await {
            (Ok(response), wire) => return Ok((response, wire)),
            (Err(mut error), _) => match error.take_message() {
                Some(unsent) if !is_fresh => request = unsent,
                Some(_) => return Err(Failure::NotSent(error.into_error().to_string())),
                None => return Err(Failure::Lost(error.into_error())),
            },
        }
    }
}

type Sent = Result<Response<Incoming>, hyper::client::conn::TrySendError<Request<Body>>>;

/// Sends, driving the connection meanwhile.
async fn send(mut wire: Box<Wire>, request: Request<Body>) -> (Sent, Box<Wire>) {
    let mut response = pin!(wire.sender.try_send_request(request));
    let sent = poll_fn(|context| {
        wire.drive(context);
        match response.as_mut().poll(context) {
            Poll::Ready(sent) => Poll::Ready(sent),
            Poll::Pending => Poll::Pending,
        }
    })
    .await;
    (sent, wire)
}
