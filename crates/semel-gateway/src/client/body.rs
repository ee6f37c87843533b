//! Bodies of a client's requests and of the responses to it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use semel_http::TimedOut;

use super::activity::Activity;

/// The largest frame for an HTTP/2 client, which must read each within its timeout.
const PIECE_MAX: usize = 16 * 1024;

pin_project! {
    /// The body of a client's request. It records its pauses, and fails when one is too long.
    pub(crate) struct ClientBody<B> {
        #[pin]
        body: B,
        activity: Arc<Activity>,
        has_ended: bool,
        has_trailers: bool,
    }

    impl<B> PinnedDrop for ClientBody<B> {
        fn drop(this: Pin<&mut Self>) {
            if !this.has_ended {
                this.activity.awaits_body(false);
                // The rest is not read, so hyper closes the connection after the response.
                this.activity.linger();
            }
        }
    }
}

/// Why a request's body is incomplete.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError<E> {
    #[error("the client broke off: {0}")]
    Broken(E),
    /// Not transparent: readers of the body look for `TimedOut` as the source.
    #[error("the client took too long")]
    TimedOut(#[from] TimedOut),
}

pin_project! {
    /// The body of a response. The request ends when it is dropped.
    pub(crate) struct Served<B> {
        #[pin]
        body: B,
        // Set for HTTP/2.
        stream: Option<Stream>,
        request: InService,
    }
}

/// A response on an HTTP/2 connection. hyper polls it only when the client accepts more.
struct Stream {
    activity: Arc<Activity>,
    /// The rest of the last frame of the body.
    rest: Bytes,
}

/// A request that is being served.
pub(crate) struct InService {
    connection: Arc<Activity>,
}

// === impl ClientBody ===

impl<B: Body> ClientBody<B> {
    pub(crate) fn new(body: B, activity: Arc<Activity>) -> Self {
        let has_ended = body.is_end_stream();
        if !has_ended {
            activity.upload_began(body.size_hint().exact().is_some());
        }
        Self { body, activity, has_ended, has_trailers: false }
    }
}

impl<B: Body> Body for ClientBody<B> {
    type Data = B::Data;
    type Error = ClientError<B::Error>;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, Self::Error>>> {
        let mut this = self.project();
        let poll = this.body.as_mut().poll_frame(context);
        this.activity.awaits_body(poll.is_pending());
        match poll {
            Poll::Pending if this.activity.is_upload_late() => {
                Poll::Ready(Some(Err(TimedOut.into())))
            }
            Poll::Pending => Poll::Pending,
            Poll::Ready(frame) => {
                if let Some(Ok(frame)) = &frame {
                    *this.has_trailers |= frame.is_trailers();
                    this.activity.upload_moved();
                }
                if !*this.has_ended && (frame.is_none() || this.body.is_end_stream()) {
                    *this.has_ended = true;
                    this.activity.upload_ended(*this.has_trailers);
                }
                Poll::Ready(frame.map(|frame| frame.map_err(ClientError::Broken)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

// === impl Served ===

impl<B: Body> Served<B> {
    pub(crate) fn new(body: B, request: InService, activity: &Arc<Activity>) -> Self {
        let stream = activity.is_stream().then(|| {
            activity.wrote(body.is_end_stream());
            Stream { activity: activity.clone(), rest: Bytes::new() }
        });
        Self { body, stream, request }
    }
}

impl<B: Body<Data = Bytes>> Body for Served<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        let Some(stream) = this.stream else { return this.body.poll_frame(context) };
        stream.activity.wrote(true);
        if !stream.rest.is_empty() {
            return Poll::Ready(Some(Ok(stream.piece())));
        }
        this.body.poll_frame(context).map(|frame| {
            frame.map(|frame| {
                frame.map(|frame| match frame.into_data() {
                    Ok(data) => {
                        stream.rest = data;
                        stream.piece()
                    }
                    Err(trailers) => trailers,
                })
            })
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
            && self.stream.as_ref().is_none_or(|stream| stream.rest.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.body.size_hint();
        let rest = self.stream.as_ref().map_or(0, |stream| stream.rest.len() as u64);
        if rest > 0 {
            if let Some(upper) = hint.upper() {
                hint.set_upper(upper.saturating_add(rest));
            }
            hint.set_lower(hint.lower().saturating_add(rest));
        }
        hint
    }
}

// === impl Stream ===

impl Stream {
    /// The next piece, which the client must read within its timeout.
    fn piece(&mut self) -> Frame<Bytes> {
        self.activity.wrote(false);
        Frame::data(self.rest.split_to(self.rest.len().min(PIECE_MAX)))
    }
}

// === impl InService ===

impl InService {
    pub(crate) fn new(connection: Arc<Activity>) -> Self {
        connection.request_began();
        Self { connection }
    }

    pub(crate) const fn connection(&self) -> &Arc<Activity> {
        &self.connection
    }
}

impl Drop for InService {
    fn drop(&mut self) {
        self.connection.request_ended();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http_body_util::{BodyExt as _, Full};

    use super::*;
    use crate::client::activity::{ActivityKind, ClientTimeouts, Overdue};
    use crate::client::watch;

    #[tokio::test]
    async fn an_http2_response_is_sent_in_pieces_each_with_a_deadline() {
        let connection = Arc::new(Activity::new(ActivityKind::Http2, ClientTimeouts::DEFAULT));
        let stream = Arc::new(Activity::stream(&connection));
        let all = Bytes::from(vec![7; 3 * PIECE_MAX + 1]);
        let request = InService::new(connection);
        let mut body = Served::new(Full::new(all.clone()), request, &stream);
        let mut left = all.len();
        while let Some(frame) = body.frame().await {
            let piece = frame.unwrap().into_data().unwrap();
            assert!(piece.len() <= PIECE_MAX && piece == all[..piece.len()]);
            left -= piece.len();
            assert_eq!(body.size_hint().exact(), Some(left as u64));
            let later = watch::Tick(watch::now().0 + 20_000);
            assert_eq!(stream.overdue(later), Some(Overdue::Writing));
        }
        assert_eq!(left, 0);
        assert!(body.is_end_stream());
    }

    #[tokio::test]
    async fn an_http1_response_is_not_split() {
        let connection = Arc::new(Activity::new(ActivityKind::Http1, ClientTimeouts::DEFAULT));
        let all = Bytes::from(vec![7; 3 * PIECE_MAX]);
        let request = InService::new(connection.clone());
        let mut body = Served::new(Full::new(all.clone()), request, &connection);
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), all);
    }

    #[tokio::test]
    async fn a_body_that_takes_too_long_fails() {
        let connection = Arc::new(Activity::new(ActivityKind::Http1, ClientTimeouts::DEFAULT));
        connection.request_began();
        let mut body = Box::pin(ClientBody::new(Never, connection.clone()));
        let mut context = Context::from_waker(std::task::Waker::noop());
        watch::check_deadlines(Duration::from_secs(1), false);
        assert!(body.as_mut().poll_frame(&mut context).is_pending());
        watch::check_deadlines(Duration::from_secs(20), false);
        let late = body.as_mut().poll_frame(&mut context);
        assert!(matches!(late, Poll::Ready(Some(Err(ClientError::TimedOut(_))))));
        drop(body);
        assert!(connection.lingers());
        assert_eq!(connection.overdue(watch::now()), None);
    }

    struct Never;

    impl Body for Never {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            Poll::Pending
        }
    }
}
