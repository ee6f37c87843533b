//! The requests of HTTP/2 connections: each is a task of its own, which ends when its client does not
//! take the response. hyper waits without end for a client that grants no window.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use super::activity::{Activity, Overdue};
use super::watch;

thread_local! {
    /// The notes of the request that hyper is about to spawn. It calls the service and spawns what
    /// it got, one right after the other on the same thread.
    static NEXT: Cell<Option<Arc<Activity>>> = const { Cell::new(None) };
}

/// Spawns the requests of HTTP/2 connections.
#[derive(Clone)]
pub(crate) struct Streams;

/// Begins the notes of the request that hyper is about to spawn.
pub(crate) fn begin(connection: &Arc<Activity>) -> Arc<Activity> {
    let activity = Arc::new(Activity::stream(connection));
    watch::watch(&activity);
    NEXT.set(Some(activity.clone()));
    activity
}

impl<F> hyper::rt::Executor<F> for Streams
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, request: F) {
        match NEXT.take() {
            Some(activity) => drop(tokio::spawn(attended(request, activity))),
            None => drop(tokio::spawn(request)),
        }
    }
}

/// Ends when the client does not take what it asked for. To drop a response that has not ended
/// resets its stream; the others of the connection go on.
async fn attended(request: impl Future, activity: Arc<Activity>) {
    let mut request = pin!(request);
    poll_fn(|context| {
        activity.attend(context.waker());
        if activity.was_called() && activity.overdue(watch::now()) == Some(Overdue::Writing) {
            tracing::debug!("a client does not take its response");
            return Poll::Ready(());
        }
        request.as_mut().poll(context).map(drop)
    })
    .await;
}
