use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::room::Taken;

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
    data: VecDeque<Bytes>,
    /// Boxed, as most bodies have none and all are moved about.
    trailers: Option<Box<HeaderMap>>,
    /// Held for its drop, as long as the data may be.
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
    /// Not its end.
    Broken,
}

// === impl Tap ===

impl Tap {
    pub(crate) fn new(max: u64, look: impl FnOnce(Seen) + Send + 'static) -> Self {
        Self { seen: Read::default(), left: max, look: Some(Box::new(look)) }
    }

    fn passes<E>(&mut self, frame: Option<&Result<Frame<Bytes>, E>>, is_end: bool) {
        match frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    match self.left.checked_sub(data.len() as u64) {
                        Some(left) => {
                            self.left = left;
                            self.seen.push(data.clone());
                        }
                        None => return self.look(|_| Seen::TooLarge),
                    }
                }
                if is_end {
                    self.look(|seen| Seen::Whole(seen.whole()));
                }
            }
            Some(Err(_)) => self.look(|_| Seen::Broken),
            None => self.look(|seen| Seen::Whole(seen.whole())),
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
    /// The same, taking up room.
    pub(crate) fn taking(mut self, taken: Taken) -> Self {
        self.taken = Some(taken);
        self
    }

    pub(crate) fn push(&mut self, data: Bytes) {
        if !data.is_empty() {
            self.data.push_back(data);
        }
    }

    pub(crate) fn end(&mut self, trailers: HeaderMap) {
        self.trailers.get_or_insert_default().extend(trailers);
    }

    pub(crate) fn trailers(&self) -> Option<&HeaderMap> {
        self.trailers.as_deref()
    }

    /// All data in one piece. Copies only what came in several.
    pub(crate) fn whole(&mut self) -> Bytes {
        match self.data.len() {
            0 => Bytes::new(),
            1 => self.data[0].clone(),
            _ => {
                let pieces: Vec<Bytes> = self.data.drain(..).collect();
                let whole = Bytes::from(pieces.concat());
                self.data.push_back(whole.clone());
                whole
            }
        }
    }

    fn len(&self) -> u64 {
        self.data.iter().map(|data| data.len() as u64).sum()
    }

    fn is_empty(&self) -> bool {
        self.data.is_empty() && self.trailers.is_none()
    }

    fn next(&mut self) -> Option<Frame<Bytes>> {
        match self.data.pop_front() {
            Some(data) => Some(Frame::data(data)),
            None => self.trailers.take().map(|trailers| Frame::trailers(*trailers)),
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
            tap.look(|seen| Seen::Whole(seen.whole()));
        }
        Self { read: Read::default(), rest: Rest::All { body }, tap: Some(Box::new(tap)) }
    }
}

impl<B> RequestBody<B> {
    /// Was the body read before it was passed on, as it is for protected requests?
    pub const fn was_read(&self) -> bool {
        matches!(self.rest, Rest::None)
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
    use http_body_util::{BodyExt as _, Full};

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
}
