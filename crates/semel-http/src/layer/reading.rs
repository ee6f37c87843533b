//! Reading bodies, within limits.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
use http_body_util::BodyExt as _;
use tokio::time::timeout;

use super::BoxError;
use super::body::Read;
use super::body_budget::BodyBudget;

/// The error of a body that took too long. Bodies with a time limit should fail with it, so that
/// the problem is `request_timeout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body took too long to arrive")]
pub struct TimedOut;

/// The result of reading a body.
pub(crate) enum Reading<B> {
    /// All of it.
    Whole(Read),
    /// More than the limit: what was read, and the rest.
    TooLarge(Read, Pin<Box<B>>),
    /// It broke off.
    Broken(BoxError),
    /// It took too long.
    Late,
    /// Over the memory budget: what was read, and the rest.
    OverBudget(Read, Pin<Box<B>>),
}

/// Reads a body of at most `max` bytes.
pub(crate) async fn read<B>(
    body: B,
    max: u64,
    within: Option<Duration>,
    budget: &Arc<BodyBudget>,
) -> Reading<B>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    if body.size_hint().lower() > max {
        return Reading::TooLarge(Read::default(), Box::pin(body));
    }
    if body.is_end_stream() {
        return Reading::Whole(Read::default());
    }
    match within {
        Some(limit) => timeout(limit, collect(body, max, budget)).await.unwrap_or(Reading::Late),
        None => collect(body, max, budget).await,
    }
}

/// Reads and discards a body. Returns true if its end was reached.
pub(crate) async fn drain<B>(body: B, max: u64, within: Duration) -> bool
where
    B: Body<Data = Bytes>,
{
    if body.size_hint().lower() > max {
        return false;
    }
    let to_the_end = async {
        let mut body = pin!(body);
        let mut left = max;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return false };
            let len = frame.data_ref().map_or(0, |data| data.len() as u64);
            match left.checked_sub(len) {
                Some(less) => left = less,
                None => return false,
            }
        }
        true
    };
    timeout(within, to_the_end).await.unwrap_or(false)
}

async fn collect<B>(body: B, max: u64, budget: &Arc<BodyBudget>) -> Reading<B>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    // Boxed, so that the rest of a body that is too large can be handed on.
    let mut body = Box::pin(body);
    let mut read = Read::within(budget);
    let mut left = max;
    while let Some(frame) = body.frame().await {
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => return broken(error.into()),
        };
        match frame.into_data() {
            Ok(data) => {
                let len = data.len() as u64;
                let fits = read.reserve(len);
                read.push(data);
                match left.checked_sub(len) {
                    None => return Reading::TooLarge(read, body),
                    Some(_) if !fits => return Reading::OverBudget(read, body),
                    Some(less) => left = less,
                }
            }
            Err(frame) => {
                if let Ok(trailers) = frame.into_trailers() {
                    read.end(trailers);
                }
            }
        }
    }
    Reading::Whole(read)
}

fn broken<B>(error: BoxError) -> Reading<B> {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error.as_ref());
    while let Some(error) = cause {
        if error.is::<TimedOut>() {
            return Reading::Late;
        }
        cause = error.source();
    }
    Reading::Broken(error)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::task::{Context, Poll};

    use http_body::Frame;

    use super::super::ResponseBody;
    use super::*;

    /// A body in chunks, of which only one is there at a time.
    struct InChunks(VecDeque<usize>);

    impl Body for InChunks {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let chunk = self.0.pop_front().map(|len| Frame::data(vec![b'x'; len].into()));
            Poll::Ready(chunk.map(Ok))
        }
    }

    /// What is left of a body of three chunks of 10,000 bytes that could not be read whole.
    async fn start_of(max: u64, budget: &Arc<BodyBudget>) -> ResponseBody<InChunks> {
        match read(InChunks([10_000; 3].into()), max, None, budget).await {
            Reading::TooLarge(start, rest) | Reading::OverBudget(start, rest) => {
                ResponseBody::partly(start, rest)
            }
            _ => panic!("it was read"),
        }
    }

    /// The start of a body stays in memory until its chunks are dropped.
    #[tokio::test]
    async fn the_start_of_a_body_counts_until_it_is_dropped() {
        // The chunk that goes over the limit is counted if it can be.
        for (max, budget_max, taken) in [(15_000, 50_000, 20_000), (50_000, 15_000, 10_000)] {
            let budget = BodyBudget::new(budget_max);
            let mut body = start_of(max, &budget).await;
            assert_eq!(budget.used(), taken);
            let mut chunks = Vec::new();
            while let Some(frame) = body.frame().await {
                chunks.push(frame.unwrap().into_data().unwrap());
            }
            drop(body);
            assert_eq!((chunks.concat().len(), budget.used()), (30_000, taken));
            // What comes after the start passes, and is not counted.
            chunks.truncate(2);
            assert_eq!(budget.used(), taken);
            chunks.remove(0);
            assert_eq!(budget.used(), taken - 10_000);
            drop(chunks);
            assert_eq!(budget.used(), 0);
        }
    }
}
