use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::Response;
use pin_project_lite::pin_project;

use super::ResponseBody;

/// A response, boxed only for requests that are protected.
pub(crate) type Boxed<R, E> =
    Pin<Box<dyn Future<Output = Result<Response<ResponseBody<R>>, E>> + Send>>;

pin_project! {
    /// The future of [`Semel`](super::Semel) and [`IdempotentService`](super::IdempotentService).
    pub struct ResponseFuture<F, R, E> {
        #[pin]
        state: State<F, R, E>,
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<F, R, E> {
        /// Passed on: the inner service's own future.
        Passed { #[pin] future: F },
        Protected { future: Boxed<R, E> },
    }
}

// === impl ResponseFuture ===

impl<F, R, E> ResponseFuture<F, R, E> {
    pub(crate) const fn passed(future: F) -> Self {
        Self { state: State::Passed { future } }
    }

    pub(crate) fn protected(
        future: impl Future<Output = Result<Response<ResponseBody<R>>, E>> + Send + 'static,
    ) -> Self {
        Self { state: State::Protected { future: Box::pin(future) } }
    }
}

impl<F, R, E> Future for ResponseFuture<F, R, E>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = Result<Response<ResponseBody<R>>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            StateProjection::Passed { future } => {
                let response = ready!(future.poll(context))?;
                Poll::Ready(Ok(response.map(ResponseBody::passed)))
            }
            StateProjection::Protected { future } => future.as_mut().poll(context),
        }
    }
}

impl<F, R, E> std::fmt::Debug for ResponseFuture<F, R, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
