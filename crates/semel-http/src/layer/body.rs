use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use pin_project_lite::pin_project;

use super::body_budget::{BodyBudget, BudgetShare};
use super::chunks::Chunks;

pin_project! {
    /// The body of a request as the inner service gets it: passed on as it comes, or read before.
    #[derive(Debug)]
    pub struct RequestBody<B> {
        read: Read,
        #[pin]
        unread: Unread<B>,
        observer: Option<Box<Observer>>,
    }
}

pin_project! {
    /// The body of a response: the inner service's own, or one that was kept.
    #[derive(Debug)]
    pub struct ResponseBody<B> {
        read: Read,
        #[pin]
        unread: Unread<B>,
        observer: Option<Box<Observer>>,
    }
}

/// The body of a response that is in memory as a whole.
pub type ReplyBody = ResponseBody<Full<Bytes>>;

pin_project! {
    /// What has not been read of a body.
    #[derive(Debug)]
    #[project = UnreadProjection]
    enum Unread<B> {
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
    data: Chunks,
    /// Boxed, as most bodies have none and all are moved about.
    trailers: Option<Box<HeaderMap>>,
    /// The budget that the data uses. Large chunks take their part along.
    share: Option<BudgetShare>,
}

/// Observes a body that is passed on, without delaying it.
pub(crate) struct Observer {
    buffer: Read,
    left: u64,
    callback: Option<Box<dyn FnOnce(Observed) + Send>>,
}

/// The result of an [`Observer`].
pub(crate) enum Observed {
    /// All of it.
    Whole(Bytes),
    /// It is over the limit.
    TooLarge,
    /// It exceeds the memory budget.
    OverBudget,
    /// It broke off.
    Broken,
}

// === impl Observer ===

impl Observer {
    pub(crate) fn new(
        max: u64,
        budget: &Arc<BodyBudget>,
        callback: impl FnOnce(Observed) + Send + 'static,
    ) -> Self {
        Self { buffer: Read::within(budget), left: max, callback: Some(Box::new(callback)) }
    }

    fn on_frame<E>(&mut self, frame: Option<&Result<Frame<Bytes>, E>>, is_end: bool) {
        if self.callback.is_none() {
            // It has reported, so nothing more is buffered.
            return;
        }
        match frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    let len = data.len() as u64;
                    match self.left.checked_sub(len) {
                        None => return self.report(|_| Observed::TooLarge),
                        Some(_) if !self.buffer.reserve(len) => {
                            return self.report(|_| Observed::OverBudget);
                        }
                        Some(left) => self.left = left,
                    }
                    self.buffer.push(data.clone());
                }
                if is_end {
                    self.report(|seen| Observed::Whole(seen.whole().clone()));
                }
            }
            Some(Err(_)) => self.report(|_| Observed::Broken),
            None => self.report(|seen| Observed::Whole(seen.whole().clone())),
        }
    }

    fn report(&mut self, result: impl FnOnce(&mut Read) -> Observed) {
        if let Some(callback) = self.callback.take() {
            callback(result(&mut self.buffer));
            self.buffer = Read::default();
        }
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.report(|_| Observed::Broken);
    }
}

impl std::fmt::Debug for Observer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Observer")
    }
}

// === impl Read ===

impl Read {
    /// An empty buffer whose data counts against a budget.
    pub(crate) fn within(budget: &Arc<BodyBudget>) -> Self {
        Self { share: Some(budget.share()), ..Self::default() }
    }

    /// Reserves budget for data to be pushed. Returns false if it does not fit.
    pub(crate) fn reserve(&mut self, bytes: u64) -> bool {
        self.share.as_mut().is_none_or(|share| share.reserve(bytes))
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

    /// All data in one chunk, to inspect: a clone that is kept for longer is not counted.
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
        match (self.data.pop(), &mut self.share) {
            (Some(data), Some(share)) => Some(Frame::data(share.hand_out(data))),
            (Some(data), None) => Some(Frame::data(data)),
            (None, _) => self.trailers.take().map(|trailers| Frame::trailers(*trailers)),
        }
    }
}

// === impl Unread ===

impl<B: Body> Unread<B> {
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

/// Both bodies emit the buffered data first, then the unread part if there is one. Buffered
/// trailers are the end: there is no unread part then.
macro_rules! read_then_unread {
    ($name:ident) => {
        impl<B> $name<B> {
            pub(crate) fn passed(body: B) -> Self {
                Self { read: Read::default(), unread: Unread::All { body }, observer: None }
            }

            pub(crate) const fn read(read: Read) -> Self {
                Self { read, unread: Unread::None, observer: None }
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
                let poll = match (this.unread.as_mut().project(), this.read.next()) {
                    (_, Some(frame)) => return Poll::Ready(Some(Ok(frame))),
                    (UnreadProjection::None, None) => return Poll::Ready(None),
                    (UnreadProjection::All { body }, None) => body.poll_frame(context),
                    (UnreadProjection::Some { body }, None) => body.as_mut().poll_frame(context),
                };
                if let (Some(observer), Poll::Ready(frame)) = (this.observer.as_mut(), &poll) {
                    observer.on_frame(frame.as_ref(), this.unread.is_end_stream());
                }
                poll
            }

            fn is_end_stream(&self) -> bool {
                self.read.is_empty() && self.unread.is_end_stream()
            }

            fn size_hint(&self) -> SizeHint {
                let (read, rest) = (self.read.len(), self.unread.size_hint());
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

read_then_unread!(RequestBody);
read_then_unread!(ResponseBody);

impl<B: Body> RequestBody<B> {
    /// Passed on as it comes, while `observer` looks at it.
    pub(crate) fn observed(body: B, mut observer: Observer) -> Self {
        if body.is_end_stream() {
            observer.report(|seen| Observed::Whole(seen.whole().clone()));
        }
        Self {
            read: Read::default(),
            unread: Unread::All { body },
            observer: Some(Box::new(observer)),
        }
    }
}

impl<B> RequestBody<B> {
    /// True if the body was read before it was passed on, as for protected requests.
    pub const fn was_read(&self) -> bool {
        matches!(self.unread, Unread::None)
    }

    /// The client's own body, as far as it has not been read.
    pub fn unread(&self) -> Option<&B> {
        match &self.unread {
            Unread::None => None,
            Unread::All { body } => Some(body),
            Unread::Some { body } => Some(body),
        }
    }
}

impl<B> ResponseBody<B> {
    /// What was read, and then the rest.
    pub(crate) const fn partly(read: Read, rest: Pin<Box<B>>) -> Self {
        Self { read, unread: Unread::Some { body: rest }, observer: None }
    }
}

impl<B: Unpin> ResponseBody<B> {
    /// The inner service's own body, as far as it has not been read: what was read of it comes
    /// before it and is not in it. `None` if all of it was read, or if this is an answer of the
    /// layer's own, such as a replay.
    pub fn unread_mut(&mut self) -> Option<&mut B> {
        match &mut self.unread {
            Unread::None => None,
            Unread::All { body } => Some(body),
            Unread::Some { body } => Some(body),
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

    fn read(chunks: &[&'static str]) -> Read {
        let mut read = Read::default();
        for chunk in chunks {
            read.push(Bytes::from_static(chunk.as_bytes()));
        }
        read
    }

    #[tokio::test]
    async fn buffered_bytes_come_before_the_unread_part() {
        let rest = Box::pin(Full::new(Bytes::from_static(b"rest")));
        let body = ResponseBody::partly(read(&["a", "", "b"]), rest);
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
    fn chunks_are_joined_once() {
        let mut read = read(&["a", "b"]);
        assert_eq!(read.whole(), "ab");
        assert_eq!(read.len(), 2);
        assert_eq!(Read::default().whole(), "");
        assert!(RequestBody::<Full<Bytes>>::read(Read::default()).is_end_stream());
    }

    /// The three states of a body: read whole, passed on as it came, read in part.
    #[test]
    fn the_unread_part_is_accessible() {
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
    }

    fn data(frame: Option<Frame<Bytes>>) -> Bytes {
        frame.unwrap().into_data().unwrap()
    }

    /// A server drops a body once it has the last chunk, and a slow client takes it much later.
    #[test]
    fn emitted_chunks_count_until_they_are_dropped() {
        let budget = BodyBudget::new(100_000);
        let mut read = Read::within(&budget);
        for len in [6_000, 10, 5_000] {
            assert!(read.reserve(len as u64));
            read.push(vec![b'x'; len].into());
        }
        let [large, small, other] = [(); 3].map(|()| data(read.next()));
        assert_eq!((large.len(), small.len(), other.len()), (6_000, 10, 5_000));
        assert_eq!(budget.used(), 11_010);
        drop(read);
        assert_eq!(budget.used(), 11_000);
        drop(large);
        assert_eq!(budget.used(), 5_000);
        drop(other);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_joined_body_counts_once() {
        let budget = BodyBudget::new(20_000);
        let mut read = Read::within(&budget);
        for _ in 0..2 {
            assert!(read.reserve(10_000));
            read.push(vec![b'x'; 10_000].into());
        }
        assert_eq!((read.whole().len(), budget.used()), (20_000, 20_000));
        let whole = data(read.next());
        drop(read);
        assert_eq!((whole.len(), budget.used()), (20_000, 20_000));
        drop(whole);
        assert_eq!(budget.used(), 0);
    }

    /// A observer on a body of these frames, and what it saw once all have passed.
    fn observed(
        budget: &Arc<BodyBudget>,
        max: u64,
        chunks: &[Bytes],
    ) -> (Observer, mpsc::Receiver<Observed>) {
        let (sender, seen) = mpsc::channel();
        let mut observer = Observer::new(max, budget, move |seen| drop(sender.send(seen)));
        for chunk in chunks {
            observer.on_frame::<()>(Some(&Ok(Frame::data(chunk.clone()))), false);
        }
        (observer, seen)
    }

    #[test]
    fn an_observer_counts_its_bytes_and_holds_no_foreign_buffers() {
        let budget = BodyBudget::new(10_000);
        let buffer = Bytes::from(vec![b'x'; 5_000]);
        let chunks: Vec<_> = (0..5_000).map(|at| buffer.slice(at..=at)).collect();
        let (mut observer, seen) = observed(&budget, 5_000, &chunks);
        drop(chunks);
        assert!(buffer.is_unique(), "the observer holds the buffer of the chunks");
        assert_eq!((seen.try_recv().is_err(), budget.used()), (true, 5_000));
        observer.on_frame::<()>(None, true);
        assert!(matches!(seen.try_recv().unwrap(), Observed::Whole(whole) if whole == buffer));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn an_observer_over_budget_holds_nothing() {
        let chunk = Bytes::from(vec![b'x'; 60]);
        for (max, is_no_room) in [(1_000, true), (100, false)] {
            let budget = BodyBudget::new(if is_no_room { 100 } else { 1_000 });
            let (observer, seen) =
                observed(&budget, max, &[chunk.clone(), chunk.clone(), chunk.slice(..9)]);
            let seen = seen.try_recv().unwrap();
            assert_eq!(matches!(seen, Observed::OverBudget), is_no_room);
            assert_eq!(matches!(seen, Observed::TooLarge), !is_no_room);
            // Nor is what passes after that held.
            assert!(observer.buffer.is_empty() && budget.used() == 0);
        }
    }
}
