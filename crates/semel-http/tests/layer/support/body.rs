use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use semel_http::TimedOut;

/// A body that follows a script, for requests and replies alike.
#[derive(Debug, Default)]
pub(crate) struct TestBody {
    steps: VecDeque<Step>,
    /// What it says about its length beforehand.
    declared: Option<u64>,
    watch: Arc<BodyWatch>,
}

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Data(Bytes),
    Trailers(HeaderMap),
    /// Is not ready yet, but will be at once.
    Yield,
    /// Is never ready.
    Stall,
    Fail(BodyError),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the peer is gone")]
    Gone,
    #[error("the body gave up on a slow sender")]
    Slow(#[source] TimedOut),
}

/// What happened to a body, for the test that sent it.
#[derive(Debug, Default)]
pub(crate) struct BodyWatch {
    polls: AtomicUsize,
    bytes: AtomicU64,
    ended: AtomicBool,
}

impl TestBody {
    /// A body of these steps, which says nothing about its length.
    pub(crate) fn of(steps: impl IntoIterator<Item = Step>) -> Self {
        Self { steps: steps.into_iter().collect(), ..Self::default() }
    }

    /// So many chunks of so many bytes.
    pub(crate) fn pieces(count: usize, len: usize) -> Self {
        Self::of((0..count).map(|_| Step::Data(vec![b'x'; len].into())))
    }

    /// The same, saying beforehand that it has this many bytes.
    pub(crate) fn declaring(mut self, bytes: u64) -> Self {
        self.declared = Some(bytes);
        self
    }

    pub(crate) fn watch(&self) -> Arc<BodyWatch> {
        self.watch.clone()
    }
}

impl Step {
    pub(crate) fn data(text: &'static str) -> Self {
        Self::Data(Bytes::from_static(text.as_bytes()))
    }
}

impl BodyWatch {
    /// How often it was polled.
    pub(crate) fn polls(&self) -> usize {
        self.polls.load(Ordering::SeqCst)
    }

    /// How many bytes were taken out of it.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::SeqCst)
    }

    /// True if it was read to its end.
    pub(crate) fn ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }
}

impl<T: Into<Bytes>> From<T> for TestBody {
    fn from(data: T) -> Self {
        let data = data.into();
        let len = data.len() as u64;
        let steps = (len > 0).then_some(Step::Data(data));
        Self::of(steps).declaring(len)
    }
}

impl Body for TestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.watch.polls.fetch_add(1, Ordering::SeqCst);
        let Some(step) = self.steps.pop_front() else {
            self.watch.ended.store(true, Ordering::SeqCst);
            return Poll::Ready(None);
        };
        match step {
            Step::Data(data) => {
                self.watch.bytes.fetch_add(data.len() as u64, Ordering::SeqCst);
                if let Some(left) = &mut self.declared {
                    *left = left.saturating_sub(data.len() as u64);
                }
                Poll::Ready(Some(Ok(Frame::data(data))))
            }
            Step::Trailers(trailers) => Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
            Step::Fail(error) => Poll::Ready(Some(Err(error))),
            Step::Yield => {
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Step::Stall => {
                self.steps.push_front(Step::Stall);
                Poll::Pending
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.steps.is_empty() && self.declared.is_some()
    }

    fn size_hint(&self) -> SizeHint {
        self.declared.map_or_else(SizeHint::new, SizeHint::with_exact)
    }
}
