//! One request to the upstream, and the head of its reply.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use semel_http::ExecutionStart;
use tokio::time::{Instant, sleep_until};

use super::latency::{self, RequestClass};
use super::obtain::obtain;
use super::pool::Pool;
use super::upstream::{Body, Upstream, UpstreamConnection};
use crate::client::Activity;
use crate::failure::Failure;

/// How long the upstream may take, and the class of its latency.
pub(crate) struct ExchangeTimeouts {
    pub(crate) class: RequestClass,
    pub(crate) limit: Duration,
    pub(crate) deadline: Instant,
    /// The client that still sends the request's body: the time for that is not the upstream's.
    pub(crate) client: Option<Arc<Activity>>,
}

/// Sends a request on an idle connection, or on a new one.
///
/// The upstream may have closed an idle connection meanwhile. hyper checks that before it writes, and returns the
/// request unsent; then it is sent on another connection. A request that was written, even in part, is never sent
/// twice.
pub(crate) async fn exchange(
    upstream: &Arc<Upstream>,
    pool: Pool,
    mut request: Request<Body>,
    timeouts: &ExchangeTimeouts,
) -> Result<(Response<Incoming>, Box<UpstreamConnection>), Failure> {
    loop {
        let (connection, is_fresh) = match pool.take() {
            Some(connection) => (connection, false),
            // Boxed, being rare: otherwise the future of every request would be larger.
            None => Box::pin(obtain(upstream, pool, timeouts)).await?,
        };
        // Before anything is sent, so that a line of it is left if the gateway is killed.
        if let Some(start) = request.extensions().get::<ExecutionStart>() {
            start.log();
        }
        let sent = Instant::now();
        match send(connection, request, timeouts).await? {
            (Ok(response), mut connection) => {
                match connection.probation.take() {
                    Some(probation) => {
                        probation.answered(sent.elapsed(), latency::mean(timeouts.class));
                    }
                    None => latency::note(timeouts.class, sent.elapsed()),
                }
                return Ok((response, connection));
            }
            (Err(mut error), _) => match error.take_message() {
                Some(unsent) if !is_fresh => request = unsent,
                Some(_) => return Err(Failure::NotSent(error.into_error().to_string())),
                None => return Err(Failure::lost(error.into_error())),
            },
        }
    }
}

type Sent = Result<Response<Incoming>, hyper::client::conn::TrySendError<Request<Body>>>;

/// Sends the request, and drives the connection meanwhile.
async fn send(
    mut connection: Box<UpstreamConnection>,
    request: Request<Body>,
    timeouts: &ExchangeTimeouts,
) -> Result<(Sent, Box<UpstreamConnection>), Failure> {
    let mut response = pin!(connection.sender.try_send_request(request));
    let mut alarm = pin!(sleep_until(timeouts.deadline));
    let sent = poll_fn(|context| {
        connection.drive(context);
        if let Poll::Ready(sent) = response.as_mut().poll(context) {
            return Poll::Ready(Ok(sent));
        }
        loop {
            ready!(alarm.as_mut().poll(context));
            match timeouts.extended() {
                Some(deadline) => alarm.as_mut().reset(deadline),
                None => return Poll::Ready(Err(Failure::Late { limit: timeouts.limit })),
            }
        }
    })
    .await?;
    Ok((sent, connection))
}

// === impl ExchangeTimeouts ===

impl ExchangeTimeouts {
    /// A later deadline, if the client took a part of the time to send its body.
    fn extended(&self) -> Option<Instant> {
        let waited = self.client.as_ref()?.since_upload();
        let left = self.limit.checked_sub(waited).filter(|left| !left.is_zero());
        left.map(|left| Instant::now() + left)
    }
}
