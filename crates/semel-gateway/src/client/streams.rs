//! The requests of HTTP/2 connections. Each is a task of its own, which ends when its client does not read the
//! response: hyper has no time limit for a client that grants no flow-control window.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use super::activity::{Activity, Overdue};
use super::watch;

thread_local! {
    /// The activity of the request that hyper is about to spawn. It calls the service and spawns the future that it
    /// got, one right after the other on the same thread.
    static NEXT: Cell<Option<Arc<Activity>>> = const { Cell::new(None) };
}

/// Spawns the requests of HTTP/2 connections.
#[derive(Clone)]
pub(crate) struct Streams;

/// Begins the activity of the request that hyper is about to spawn.
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
            Some(activity) => drop(tokio::spawn(run_until_overdue(request, activity))),
            None => drop(tokio::spawn(request)),
        }
    }
}

/// Runs the request until the client misses the deadline to read its response. Dropping an incomplete response resets
/// its stream; the other streams of the connection continue.
async fn run_until_overdue(request: impl Future, activity: Arc<Activity>) {
    let mut request = pin!(request);
    poll_fn(|context| {
        activity.register_waker(context.waker());
        if activity.take_woken() && activity.overdue(watch::now()) == Some(Overdue::Writing) {
            tracing::debug!("a client does not take its response");
            return Poll::Ready(());
        }
        request.as_mut().poll(context).map(drop)
    })
    .await;
}
