use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use pin_project_lite::pin_project;

use super::pieces::Pieces;
use super::room::{Room, Taken};

pin_project! {
    /// The body of a request as the inner service gets it: passed on as it comes, or read before.
    #[derive(Debug)]
    pub struct RequestBody<B> {
        read: Read,
        #[pin]
        rest: Rest<B>,
        tap: Option<Box<Tap>>,
    }
}

pin_project! {
    /// The body of a response: the inner service's own, or one that was kept.
    #[derive(Debug)]
    pub struct ResponseBody<B> {
        read: Read,
        #[pin]
        rest: Rest<B>,
        tap: Option<Box<Tap>>,
    }
}

/// The body of a response that is in memory as a whole.
pub type ReplyBody = ResponseBody<Full<Bytes>>;

pin_project! {
    /// What has not been read of a body.
    #[derive(Debug)]
    #[project = RestProjection]
    enum Rest<B> {
        None,
        /// Nothing was read: the body as it came.
        All { #[pin] body: B },
        /// Some was read, which pinned it.
        Some { body: Pin<Box<B>> },
    }
}

/// What has been read of a body.
#[derive(Debug, Default)]
pub(crate) struct Read {
    data: Pieces,
    /// Boxed, as most bodies have none and all are moved about.
    trailers: Option<Box<HeaderMap>>,
    /// The room that the data takes. Large pieces take their share with them.
    taken: Option<Taken>,
}

/// Looks at a body that is passed on, without holding it up.
pub(crate) struct Tap {
    seen: Read,
    left: u64,
    look: Option<Box<dyn FnOnce(Seen) + Send>>,
}

/// What a [`Tap`] has seen.
pub(crate) enum Seen {
    /// All of it.
    Whole(Bytes),
    /// More than it looks at.
    TooLarge,
    /// Too much is held for others.
    NoRoom,
    /// Not its end.
    Broken,
}

// === impl Tap ===

impl Tap {
    pub(crate) fn new(
        max: u64,
        room: &Arc<Room>,
        look: impl FnOnce(Seen) + Send + 'static,
    ) -> Self {
        Self { seen: Read::within(room), left: max, look: Some(Box::new(look)) }
    }

    fn passes<E>(&mut self, frame: Option<&Result<Frame<Bytes>, E>>, is_end: bool) {
        if self.look.is_none() {
            // It was looked at, so nothing more is held.
            return;
        }
        match frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    let len = data.len() as u64;
                    match self.left.checked_sub(len) {
                        None => return self.look(|_| Seen::TooLarge),
                        Some(_) if !self.seen.take_room(len) => return self.look(|_| Seen::NoRoom),
                        Some(left) => self.left = left,
                    }
                    self.seen.push(data.clone());
                }
                if is_end {
                    self.look(|seen| Seen::Whole(seen.whole().clone()));
                }
            }
            Some(Err(_)) => self.look(|_| Seen::Broken),
            None => self.look(|seen| Seen::Whole(seen.whole().clone())),
        }
    }

    fn look(&mut self, seen: impl FnOnce(&mut Read) -> Seen) {
        if let Some(look) = self.look.take() {
            look(seen(&mut self.seen));
            self.seen = Read::default();
        }
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.look(|_| Seen::Broken);
    }
}

impl std::fmt::Debug for Tap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tap")
    }
}

// === impl Read ===

impl Read {
    /// Nothing yet. What is to come takes up room.
    pub(crate) fn within(room: &Arc<Room>) -> Self {
        Self { taken: Some(room.enter()), ..Self::default() }
    }

    /// Takes room for data that is to be pushed, if there is any.
    pub(crate) fn take_room(&mut self, bytes: u64) -> bool {
        self.taken.as_mut().is_none_or(|taken| taken.more(bytes))
    }

    pub(crate) fn push(&mut self, data: Bytes) {
        self.data.push(data);
    }

    pub(crate) fn end(&mut self, trailers: HeaderMap) {
        self.trailers.get_or_insert_default().extend(trailers);
    }

    pub(crate) fn trailers(&self) -> Option<&HeaderMap> {
        self.trailers.as_deref()
    }

    /// All data in one piece, to look at: a clone that is kept for longer takes no room.
    pub(crate) fn whole(&mut self) -> &Bytes {
        self.data.whole()
    }

    fn len(&self) -> u64 {
        self.data.len() as u64
    }

    fn is_empty(&self) -> bool {
        self.data.is_empty() && self.trailers.is_none()
    }

    fn next(&mut self) -> Option<Frame<Bytes>> {
        match (self.data.pop(), &mut self.taken) {
            (Some(data), Some(taken)) => Some(Frame::data(taken.hand_out(data))),
            (Some(data), None) => Some(Frame::data(data)),
            (None, _) => self.trailers.take().map(|trailers| Frame::trailers(*trailers)),
        }
    }
}

// === impl Rest ===

impl<B: Body> Rest<B> {
    fn is_end_stream(&self) -> bool {
        match self {
            Self::None => true,
            Self::All { body } => body.is_end_stream(),
            Self::Some { body } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::None => SizeHint::with_exact(0),
            Self::All { body } => body.size_hint(),
            Self::Some { body } => body.size_hint(),
        }
    }
}

/// Both bodies are: first what was read, then the rest if there is one. Trailers that were read
/// are the end, so there is no rest then.
macro_rules! read_then_rest {
    ($name:ident) => {
        impl<B> $name<B> {
            pub(crate) fn passed(body: B) -> Self {
                Self { read: Read::default(), rest: Rest::All { body }, tap: None }
            }

            pub(crate) const fn read(read: Read) -> Self {
                Self { read, rest: Rest::None, tap: None }
            }

            pub(crate) const fn partly(read: Read, rest: Pin<Box<B>>) -> Self {
                Self { read, rest: Rest::Some { body: rest }, tap: None }
            }
        }

        impl<B: Body<Data = Bytes>> Body for $name<B> {
            type Data = Bytes;
            type Error = B::Error;

            fn poll_frame(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
            ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
                let mut this = self.project();
                let poll = match (this.rest.as_mut().project(), this.read.next()) {
                    (_, Some(frame)) => return Poll::Ready(Some(Ok(frame))),
                    (RestProjection::None, None) => return Poll::Ready(None),
                    (RestProjection::All { body }, None) => body.poll_frame(context),
                    (RestProjection::Some { body }, None) => body.as_mut().poll_frame(context),
                };
                if let (Some(tap), Poll::Ready(frame)) = (this.tap.as_mut(), &poll) {
                    tap.passes(frame.as_ref(), this.rest.is_end_stream());
                }
                poll
            }

            fn is_end_stream(&self) -> bool {
                self.read.is_empty() && self.rest.is_end_stream()
            }

            fn size_hint(&self) -> SizeHint {
                let (read, rest) = (self.read.len(), self.rest.size_hint());
                let mut hint = SizeHint::new();
                hint.set_lower(rest.lower().saturating_add(read));
                if let Some(upper) = rest.upper() {
                    hint.set_upper(upper.saturating_add(read));
                }
                hint
            }
        }
    };
}

read_then_rest!(RequestBody);
read_then_rest!(ResponseBody);

impl<B: Body> RequestBody<B> {
    /// Passed on as it comes, while `tap` looks at it.
    pub(crate) fn tapped(body: B, mut tap: Tap) -> Self {
        if body.is_end_stream() {
            tap.look(|seen| Seen::Whole(seen.whole().clone()));
        }
        Self { read: Read::default(), rest: Rest::All { body }, tap: Some(Box::new(tap)) }
    }
}

impl<B> RequestBody<B> {
    /// Was the body read before it was passed on, as it is for protected requests?
    pub const fn was_read(&self) -> bool {
        matches!(self.rest, Rest::None)
    }

    /// The client's own body, as far as it has not been read.
    pub fn unread(&self) -> Option<&B> {
        match &self.rest {
            Rest::None => None,
            Rest::All { body } => Some(body),
            Rest::Some { body } => Some(body),
        }
    }
}

impl<B: Unpin> ResponseBody<B> {
    /// The inner service's own body, as far as it has not been read: what was read of it comes
    /// before it and is not in it. `None` if all of it was read, or if this is an answer of the
    /// layer's own, such as a replay.
    pub fn unread_mut(&mut self) -> Option<&mut B> {
        match &mut self.rest {
            Rest::None => None,
            Rest::All { body } => Some(body),
            Rest::Some { body } => Some(body),
        }
    }
}

impl<B> From<Bytes> for ResponseBody<B> {
    fn from(data: Bytes) -> Self {
        let mut read = Read::default();
        read.push(data);
        Self::read(read)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use http_body_util::BodyExt as _;

    use super::*;

    fn read(pieces: &[&'static str]) -> Read {
        let mut read = Read::default();
        for piece in pieces {
            read.push(Bytes::from_static(piece.as_bytes()));
        }
        read
    }

    #[tokio::test]
    async fn what_was_read_comes_before_the_rest() {
        let rest = Box::pin(Full::new(Bytes::from_static(b"rest")));
        let body = RequestBody::partly(read(&["a", "", "b"]), rest);
        assert_eq!(body.size_hint().exact(), Some(6));
        assert_eq!(body.collect().await.unwrap().to_bytes(), "abrest");
    }

    #[tokio::test]
    async fn trailers_come_last() {
        let mut read = read(&["a"]);
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", "0".parse().unwrap());
        read.end(trailers.clone());
        let body: ResponseBody<Full<Bytes>> = ResponseBody::read(read);
        assert!(!body.is_end_stream());
        let collected = body.collect().await.unwrap();
        assert_eq!(collected.trailers(), Some(&trailers));
        assert_eq!(collected.to_bytes(), "a");
    }

    #[test]
    fn pieces_become_whole_once() {
        let mut read = read(&["a", "b"]);
        assert_eq!(read.whole(), "ab");
        assert_eq!(read.len(), 2);
        assert_eq!(Read::default().whole(), "");
        assert!(RequestBody::<Full<Bytes>>::read(Read::default()).is_end_stream());
    }

    /// The three states of a body: read whole, passed on as it came, read in part.
    #[test]
    fn what_has_not_been_read_can_be_reached() {
        fn full(text: &'static str) -> Full<Bytes> {
            Full::new(Bytes::from_static(text.as_bytes()))
        }
        fn reply(mut body: ResponseBody<Full<Bytes>>) -> Option<u64> {
            body.unread_mut()?.size_hint().exact()
        }
        fn request(body: &RequestBody<Full<Bytes>>) -> Option<u64> {
            body.unread()?.size_hint().exact()
        }
        let rest = || Box::pin(full("rest"));
        assert_eq!(reply(ResponseBody::read(read(&["start"]))), None);
        assert_eq!(reply(ResponseBody::passed(full("all"))), Some(3));
        assert_eq!(reply(ResponseBody::partly(read(&["start"]), rest())), Some(4));
        assert_eq!(request(&RequestBody::read(read(&["start"]))), None);
        assert_eq!(request(&RequestBody::passed(full("all"))), Some(3));
        assert_eq!(request(&RequestBody::partly(read(&["start"]), rest())), Some(4));
    }

    fn data(frame: Option<Frame<Bytes>>) -> Bytes {
        frame.unwrap().into_data().unwrap()
    }

    /// A server drops a body once it has the last piece, and a slow client takes it much later.
    #[test]
    fn what_was_handed_out_takes_room_until_it_is_gone() {
        let room = Room::new(100_000);
        let mut read = Read::within(&room);
        for len in [6_000, 10, 5_000] {
            assert!(read.take_room(len as u64));
            read.push(vec![b'x'; len].into());
        }
        let [large, small, other] = [(); 3].map(|()| data(read.next()));
        assert_eq!((large.len(), small.len(), other.len()), (6_000, 10, 5_000));
        assert_eq!(room.taken(), 11_010);
        drop(read);
        assert_eq!(room.taken(), 11_000);
        drop(large);
        assert_eq!(room.taken(), 5_000);
        drop(other);
        assert_eq!(room.taken(), 0);
    }

    #[test]
    fn a_whole_takes_room_once() {
        let room = Room::new(20_000);
        let mut read = Read::within(&room);
        for _ in 0..2 {
            assert!(read.take_room(10_000));
            read.push(vec![b'x'; 10_000].into());
        }
        assert_eq!((read.whole().len(), room.taken()), (20_000, 20_000));
        let whole = data(read.next());
        drop(read);
        assert_eq!((whole.len(), room.taken()), (20_000, 20_000));
        drop(whole);
        assert_eq!(room.taken(), 0);
    }

    /// A tap on a body of these frames, and what it saw once all have passed.
    fn tapped(room: &Arc<Room>, max: u64, pieces: &[Bytes]) -> (Tap, mpsc::Receiver<Seen>) {
        let (sender, seen) = mpsc::channel();
        let mut tap = Tap::new(max, room, move |seen| drop(sender.send(seen)));
        for piece in pieces {
            tap.passes::<()>(Some(&Ok(Frame::data(piece.clone()))), false);
        }
        (tap, seen)
    }

    #[test]
    fn a_tap_takes_room_and_holds_no_foreign_buffers() {
        let room = Room::new(10_000);
        let buffer = Bytes::from(vec![b'x'; 5_000]);
        let pieces: Vec<_> = (0..5_000).map(|at| buffer.slice(at..=at)).collect();
        let (mut tap, seen) = tapped(&room, 5_000, &pieces);
        drop(pieces);
        assert!(buffer.is_unique(), "the tap holds the buffer of the pieces");
        assert_eq!((seen.try_recv().is_err(), room.taken()), (true, 5_000));
        tap.passes::<()>(None, true);
        assert!(matches!(seen.try_recv().unwrap(), Seen::Whole(whole) if whole == buffer));
        assert_eq!(room.taken(), 0);
    }

    #[test]
    fn a_tap_that_finds_no_room_holds_nothing() {
        let piece = Bytes::from(vec![b'x'; 60]);
        for (max, is_no_room) in [(1_000, true), (100, false)] {
            let room = Room::new(if is_no_room { 100 } else { 1_000 });
            let (tap, seen) = tapped(&room, max, &[piece.clone(), piece.clone(), piece.slice(..9)]);
            let seen = seen.try_recv().unwrap();
            assert_eq!(matches!(seen, Seen::NoRoom), is_no_room);
            assert_eq!(matches!(seen, Seen::TooLarge), !is_no_room);
            // Nor is what passes after that held.
            assert!(tap.seen.is_empty() && room.taken() == 0);
        }
    }
}
