use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::activity::Activity;

pin_project! {
    /// The body of a client's request: its pauses are noted, so that a client that takes too long
    /// is noticed.
    pub(crate) struct ClientBody<B> {
        #[pin]
        body: B,
        activity: Arc<Activity>,
        has_ended: bool,
    }

    impl<B> PinnedDrop for ClientBody<B> {
        fn drop(this: Pin<&mut Self>) {
            // Nobody will read the rest, so hyper closes the connection after the answer.
            if !this.has_ended {
                this.activity.linger();
            }
        }
    }
}

pin_project! {
    /// The body of a response: the request has ended when it is dropped.
    pub(crate) struct Served<B> {
        #[pin]
        body: B,
        request: InService,
    }
}

/// A request that is being served.
pub(crate) struct InService {
    activity: Arc<Activity>,
}

// === impl ClientBody ===

impl<B: Body> ClientBody<B> {
    pub(crate) fn new(body: B, activity: Arc<Activity>) -> Self {
        let has_ended = body.is_end_stream();
        Self { body, activity, has_ended }
    }
}

impl<B: Body> Body for ClientBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut this = self.project();
        let poll = this.body.as_mut().poll_frame(context);
        this.activity.awaits_body(poll.is_pending());
        if let Poll::Ready(Some(Ok(frame))) = &poll
            && frame.is_trailers()
        {
            this.activity.trailers_came();
        }
        if poll.is_ready() {
            *this.has_ended = matches!(poll, Poll::Ready(None)) || this.body.is_end_stream();
        }
        poll
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

// === impl Served ===

impl<B> Served<B> {
    pub(crate) const fn new(body: B, request: InService) -> Self {
        Self { body, request }
    }
}

impl<B: Body<Data = Bytes>> Body for Served<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        self.project().body.poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

// === impl InService ===

impl InService {
    pub(crate) fn new(activity: Arc<Activity>) -> Self {
        activity.request_began();
        Self { activity }
    }
}

impl Drop for InService {
    fn drop(&mut self) {
        self.activity.request_ended();
    }
}
