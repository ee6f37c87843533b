//! The body of a reply: it drives the connection it comes from, and gives it back at its end.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use semel_http::TimedOut;
use tokio::time::{Instant, Sleep, sleep_until};

use super::pool::Pool;
use super::upstream::Wire;

/// A reply's body, or one of our own.
pub(crate) struct UpstreamBody(Kind);

enum Kind {
    Own(Option<Bytes>),
    Upstream(Box<Reply>),
}

struct Reply {
    body: Incoming,
    /// Given back, or dropped, when the body has ended.
    wire: Option<Box<Wire>>,
    pool: Pool,
    limits: TimeLimits,
    timer: Option<Pin<Box<Sleep>>>,
}

/// How long the rest of a reply may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeLimits {
    /// While somebody waits for all of it. None once it is passed on.
    pub(crate) whole: Option<Instant>,
    /// For each piece that is passed on.
    pub(crate) piece: Duration,
}

/// What can happen to a reply on its way.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    /// The upstream broke off.
    #[error("the upstream broke off: {0}")]
    Broken(#[from] hyper::Error),
    /// The upstream took too long. Not transparent: whoever reads the body looks for its source.
    #[error("the upstream took too long")]
    TimedOut(#[from] TimedOut),
}

// === impl UpstreamBody ===

impl UpstreamBody {
    pub(crate) fn new(body: Incoming, wire: Box<Wire>, pool: Pool, limits: TimeLimits) -> Self {
        let wire = if body.is_end_stream() {
            give_back(wire, pool);
            None
        } else {
            Some(wire)
        };
        Self(Kind::Upstream(Box::new(Reply { body, wire, pool, limits, timer: None })))
    }

    /// Nobody waits for all of it any more: whoever reads it takes it piece by piece.
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
        if let Some(wire) = &mut self.wire {
            wire.drive(context);
        }
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(frame) => {
                self.timer = None;
                match &frame {
                    Some(Ok(_)) if !self.body.is_end_stream() => {}
                    Some(Ok(_)) | None => self.finish(context),
                    Some(Err(_)) => self.wire = None,
                }
                Poll::Ready(frame.map(|frame| frame.map_err(BodyError::from)))
            }
            Poll::Pending => self.poll_timer(context).map(|late| {
                self.wire = None;
                Some(Err(late.into()))
            }),
        }
    }

    /// The end was read: the connection may be of use again.
    fn finish(&mut self, context: &mut Context<'_>) {
        if let Some(mut wire) = self.wire.take() {
            if !wire.is_reusable() {
                wire.drive(context);
            }
            give_back(wire, self.pool);
        }
    }

    /// Set only when there is something to wait for: most replies come in one piece.
    fn poll_timer(&mut self, context: &mut Context<'_>) -> Poll<TimedOut> {
        let TimeLimits { whole, piece } = self.limits;
        let timer = self.timer.get_or_insert_with(|| {
            Box::pin(sleep_until(whole.unwrap_or_else(|| Instant::now() + piece)))
        });
        timer.as_mut().poll(context).map(|()| TimedOut)
    }
}

fn give_back(wire: Box<Wire>, pool: Pool) {
    if wire.is_reusable() {
        pool.put(wire);
    }
}
