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
use super::room::Room;

/// The error of a body that took too long. Bodies that give up on slow senders should fail with
/// it, so that the answer can say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body took too long to arrive")]
pub struct TimedOut;

/// What came of reading a body.
pub(crate) enum Reading<B> {
    /// All of it.
    Whole(Read),
    /// More than the limit: what was read, and the rest.
    TooLarge(Read, Pin<Box<B>>),
    /// It broke off.
    Broken(BoxError),
    /// It took too long.
    Late,
    /// Too much is held for others: what was read, and the rest.
    NoRoom(Read, Pin<Box<B>>),
}

/// Reads a body of at most `max` bytes.
pub(crate) async fn read<B>(
    body: B,
    max: u64,
    within: Option<Duration>,
    room: &Arc<Room>,
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
        Some(limit) => timeout(limit, collect(body, max, room)).await.unwrap_or(Reading::Late),
        None => collect(body, max, room).await,
    }
}

/// Reads a body and throws it away; says whether its end was reached.
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

async fn collect<B>(body: B, max: u64, room: &Arc<Room>) -> Reading<B>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    // Boxed, so that the rest of a body that is too large can be handed on.
    let mut body = Box::pin(body);
    let mut read = Read::within(room);
    let mut left = max;
    while let Some(frame) = body.frame().await {
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => return broken(error.into()),
        };
        match frame.into_data() {
            Ok(data) => {
                let len = data.len() as u64;
                let has_room = read.take_room(len);
                read.push(data);
                match left.checked_sub(len) {
                    None => return Reading::TooLarge(read, body),
                    Some(_) if !has_room => return Reading::NoRoom(read, body),
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

    use super::super::RequestBody;
    use super::*;

    /// A body in pieces, of which only one is there at a time.
    struct InPieces(VecDeque<usize>);

    impl Body for InPieces {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let piece = self.0.pop_front().map(|len| Frame::data(vec![b'x'; len].into()));
            Poll::Ready(piece.map(Ok))
        }
    }

    /// What is left of a body of three pieces of 10,000 bytes that could not be read whole.
    async fn start_of(max: u64, room: &Arc<Room>) -> RequestBody<InPieces> {
        match read(InPieces([10_000; 3].into()), max, None, room).await {
            Reading::TooLarge(start, rest) | Reading::NoRoom(start, rest) => {
                RequestBody::partly(start, rest)
            }
            _ => panic!("it was read"),
        }
    }

    /// Whoever gets the start of a body still holds it in memory.
    #[tokio::test]
    async fn the_start_of_a_body_takes_room_until_it_is_gone() {
        // The piece that goes over the limit is counted if it can be.
        for (max, room_max, taken) in [(15_000, 50_000, 20_000), (50_000, 15_000, 10_000)] {
            let room = Room::new(room_max);
            let mut body = start_of(max, &room).await;
            assert_eq!(room.taken(), taken);
            let mut pieces = Vec::new();
            while let Some(frame) = body.frame().await {
                pieces.push(frame.unwrap().into_data().unwrap());
            }
            drop(body);
            assert_eq!((pieces.concat().len(), room.taken()), (30_000, taken));
            // What comes after the start passes, and is not counted.
            pieces.truncate(2);
            assert_eq!(room.taken(), taken);
            pieces.remove(0);
            assert_eq!(room.taken(), taken - 10_000);
            drop(pieces);
            assert_eq!(room.taken(), 0);
        }
    }
}
