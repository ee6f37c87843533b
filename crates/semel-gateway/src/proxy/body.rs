//! The body of a reply. It drives the connection that it is read from, and returns it to the pool at its end.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use semel_http::TimedOut;
use tokio::time::{Instant, Sleep, sleep_until};

use super::pool::Pool;
use super::upstream::UpstreamConnection;
use crate::client::InWork;

/// The body of a reply, or of a response that the gateway made.
pub(crate) struct UpstreamBody(Kind);

enum Kind {
    Own(Option<Bytes>),
    Upstream(Box<Reply>),
}

struct Reply {
    body: Incoming,
    /// Returned to the pool, or dropped, when the body has ended.
    connection: Option<Box<UpstreamConnection>>,
    pool: Pool,
    limits: TimeLimits,
    timer: Option<Pin<Box<Sleep>>>,
    /// Counts the request until the reply has been read.
    #[expect(dead_code, reason = "held")]
    in_work: Option<Arc<InWork>>,
}

/// How long the rest of a reply may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeLimits {
    /// For the whole reply, while it is buffered. `None` once it is streamed.
    pub(crate) whole: Option<Instant>,
    /// For each frame of a streamed reply.
    pub(crate) piece: Duration,
}

/// Why a reply is incomplete.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    /// The upstream broke off.
    #[error("the upstream broke off: {0}")]
    Broken(#[from] hyper::Error),
    /// The upstream took too long. Not transparent: readers of the body look for `TimedOut` as the source.
    #[error("the upstream took too long")]
    TimedOut(#[from] TimedOut),
}

// === impl UpstreamBody ===

impl UpstreamBody {
    pub(crate) fn new(
        body: Incoming,
        connection: Box<UpstreamConnection>,
        pool: Pool,
        limits: TimeLimits,
        in_work: Option<Arc<InWork>>,
    ) -> Self {
        let connection = if body.is_end_stream() {
            give_back(connection, pool);
            None
        } else {
            Some(connection)
        };
        let timer = None;
        Self(Kind::Upstream(Box::new(Reply { body, connection, pool, limits, timer, in_work })))
    }

    /// Switches to streaming: the time limit is per frame from now on.
    pub(crate) fn pass_on(&mut self) {
        if let Kind::Upstream(reply) = &mut self.0 {
            reply.limits.whole = None;
            reply.timer = None;
        }
    }
}

impl From<Bytes> for UpstreamBody {
    fn from(bytes: Bytes) -> Self {
        Self(Kind::Own(Some(bytes)))
    }
}

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.0 {
            Kind::Own(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Upstream(reply) => reply.poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Own(bytes) => bytes.is_none(),
            Kind::Upstream(reply) => reply.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Own(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Kind::Upstream(reply) => reply.body.size_hint(),
        }
    }
}

// === impl Reply ===

impl Reply {
    fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Some(connection) = &mut self.connection {
            connection.drive(context);
        }
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(frame) => {
                self.timer = None;
                match &frame {
                    Some(Ok(_)) if !self.body.is_end_stream() => {}
                    Some(Ok(_)) | None => self.finish(context),
                    Some(Err(_)) => self.connection = None,
                }
                Poll::Ready(frame.map(|frame| frame.map_err(BodyError::from)))
            }
            Poll::Pending => self.poll_timer(context).map(|late| {
                self.connection = None;
                Some(Err(late.into()))
            }),
        }
    }

    /// The end was read: the connection may be reusable.
    fn finish(&mut self, context: &mut Context<'_>) {
        if let Some(mut connection) = self.connection.take() {
            if !connection.is_reusable() {
                connection.drive(context);
            }
            give_back(connection, self.pool);
        }
    }

    /// Armed only when the body is pending: most replies arrive in one frame.
    fn poll_timer(&mut self, context: &mut Context<'_>) -> Poll<TimedOut> {
        let TimeLimits { whole, piece } = self.limits;
        let timer = self.timer.get_or_insert_with(|| {
            Box::pin(sleep_until(whole.unwrap_or_else(|| Instant::now() + piece)))
        });
        timer.as_mut().poll(context).map(|()| TimedOut)
    }
}

fn give_back(connection: Box<UpstreamConnection>, pool: Pool) {
    if connection.is_reusable() {
        pool.put(connection);
    }
}
