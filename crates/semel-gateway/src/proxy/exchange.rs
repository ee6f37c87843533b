//! One request to the upstream, and the head of its reply.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::pool::Pool;
use super::upstream::{Body, ConnectError, Upstream, Wire};
use crate::server::Activity;

/// Why there is no reply.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The upstream surely has not seen the request.
    NotSent(String),
    /// It may have.
    Lost(hyper::Error),
    /// It took too long, and may have executed the request.
    Late,
}

/// How long the upstream may take.
pub(crate) struct Patience {
    pub(crate) limit: Duration,
    pub(crate) deadline: Instant,
    /// Who still sends the request's body: its time is not the upstream's.
    pub(crate) client: Option<Arc<Activity>>,
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
    patience: &Patience,
) -> Result<(Response<Incoming>, Box<Wire>), Failure> {
    loop {
        let (wire, is_fresh) = match pool.take() {
            Some(wire) => (wire, false),
            None => (connect(upstream, patience).await?, true),
        };
        match send(wire, request, patience).await? {
            (Ok(response), wire) => return Ok((response, wire)),
            (Err(mut error), _) => match error.take_message() {
                Some(unsent) if !is_fresh => request = unsent,
                Some(_) => return Err(Failure::NotSent(error.into_error().to_string())),
                None => return Err(Failure::Lost(error.into_error())),
            },
        }
    }
}

async fn connect(upstream: &Upstream, patience: &Patience) -> Result<Box<Wire>, Failure> {
    let connected = timeout_at(patience.deadline, upstream.connect()).await;
    let in_time = connected.unwrap_or(Err(ConnectError::TimedOut(patience.limit)));
    in_time.map_err(|error| Failure::NotSent(error.to_string()))
}

type Sent = Result<Response<Incoming>, hyper::client::conn::TrySendError<Request<Body>>>;

/// Sends, driving the connection meanwhile.
async fn send(
    mut wire: Box<Wire>,
    request: Request<Body>,
    patience: &Patience,
) -> Result<(Sent, Box<Wire>), Failure> {
    let mut response = pin!(wire.sender.try_send_request(request));
    let mut alarm = pin!(sleep_until(patience.deadline));
    let sent = poll_fn(|context| {
        wire.drive(context);
        if let Poll::Ready(sent) = response.as_mut().poll(context) {
            return Poll::Ready(Ok(sent));
        }
        loop {
            ready!(alarm.as_mut().poll(context));
            match patience.more() {
                Some(deadline) => alarm.as_mut().reset(deadline),
                None => return Poll::Ready(Err(Failure::Late)),
            }
        }
    })
    .await?;
    Ok((sent, wire))
}

// === impl Patience ===

impl Patience {
    /// A later deadline, if the client has had a part in missing the last.
    fn more(&self) -> Option<Instant> {
        let waited = self.client.as_ref()?.since_upload();
        let left = self.limit.checked_sub(waited).filter(|left| !left.is_zero());
        left.map(|left| Instant::now() + left)
    }
}
