use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use super::*;

/// Counts how often it was woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Count {
    fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// A future that has been polled once, with the count of its wake-ups.
fn waiting(notifier: &CommitNotifier) -> (Pin<Box<CommitFuture>>, Arc<Count>) {
    let (mut future, count) = (Box::pin(notifier.subscribe()), Arc::new(Count::default()));
    assert!(poll(&mut future, &count).is_pending());
    (future, count)
}

fn poll(future: &mut Pin<Box<CommitFuture>>, count: &Arc<Count>) -> Poll<CommitResult> {
    future.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(count))))
}

fn is_durable(poll: &Poll<CommitResult>) -> bool {
    matches!(poll, Poll::Ready(CommitResult::Durable))
}

#[test]
fn one_is_woken_and_wakes_the_others_of_its_thread() {
    let notifier = CommitNotifier::default();
    let mut waiters: Vec<_> = (0..5).map(|_| waiting(&notifier)).collect();
    let counts: Vec<_> = waiters.iter().map(|(_, count)| Arc::clone(count)).collect();
    let woken = || counts.iter().map(|count| count.get()).collect::<Vec<_>>();
    notifier.complete(CommitResult::Durable);
    assert_eq!(woken(), [1, 0, 0, 0, 0]);
    let (first, count) = &mut waiters[0];
    assert!(is_durable(&poll(first, count)));
    assert_eq!(woken(), [1, 1, 1, 1, 1]);
    for (future, count) in &mut waiters[1..] {
        assert!(is_durable(&poll(future, count)));
    }
    assert_eq!(woken(), [1, 1, 1, 1, 1]);
}

#[test]
fn each_thread_is_woken() {
    let notifier = CommitNotifier::default();
    let (_here, count) = waiting(&notifier);
    let (_there, elsewhere) =
        thread::scope(|scope| scope.spawn(|| waiting(&notifier)).join().unwrap());
    notifier.complete(CommitResult::Durable);
    assert_eq!((count.get(), elsewhere.get()), (1, 1));
}

#[test]
fn a_future_dropped_after_its_wake_up_wakes_the_others() {
    let notifier = CommitNotifier::default();
    let (first, _) = waiting(&notifier);
    let (_second, count) = waiting(&notifier);
    notifier.complete(CommitResult::Durable);
    assert_eq!(count.get(), 0);
    drop(first);
    assert_eq!(count.get(), 1);
}

/// A future that was woken and is then neither polled nor dropped must not hold up the others for ever.
#[test]
fn the_next_batch_wakes_stalled_futures() {
    let mut notifiers = CommitNotifiers::default();
    let (notifier, next) = (notifiers.next(), notifiers.next());
    let (stuck, _) = waiting(&notifier);
    let (mut stalled, count) = waiting(&notifier);
    notifier.complete(CommitResult::Durable);
    assert_eq!(count.get(), 0, "it trusts the first one to pass the word on");
    next.complete(CommitResult::Durable);
    assert_eq!(count.get(), 1);
    assert!(is_durable(&poll(&mut stalled, &count)));
    drop(stuck);
}

/// A batch may be dropped while the one before it is still being written.
#[test]
fn futures_of_an_incomplete_batch_are_not_woken() {
    let mut notifiers = CommitNotifiers::default();
    let (notifier, next) = (notifiers.next(), notifiers.next());
    let (mut waiter, count) = waiting(&notifier);
    next.complete(CommitResult::Refused("full".into()));
    assert_eq!(count.get(), 0);
    notifier.complete(CommitResult::Durable);
    assert_eq!(count.get(), 1);
    assert!(is_durable(&poll(&mut waiter, &count)));
}

#[test]
fn a_future_dropped_before_the_result_is_not_relied_on() {
    let notifier = CommitNotifier::default();
    let (first, _) = waiting(&notifier);
    let (_second, count) = waiting(&notifier);
    drop(first);
    notifier.complete(CommitResult::Durable);
    assert_eq!(count.get(), 1);
}

#[test]
fn a_future_that_moved_is_woken_on_its_latest_thread() {
    let notifier = CommitNotifier::default();
    let (mut moved, count) = waiting(&notifier);
    let (_stays, stays) = waiting(&notifier);
    thread::scope(|scope| {
        scope.spawn(|| assert!(poll(&mut moved, &count).is_pending())).join().unwrap();
    });
    notifier.complete(CommitResult::Durable);
    assert_eq!((count.get(), stays.get()), (1, 1));
}

#[test]
fn a_dropped_notifier_completes_its_futures() {
    let notifier = CommitNotifier::default();
    let (mut future, count) = waiting(&notifier);
    drop(notifier);
    assert_eq!(count.get(), 1);
    assert!(matches!(poll(&mut future, &count), Poll::Ready(CommitResult::Abandoned)));
}

#[test]
fn a_late_subscriber_is_complete_at_once() {
    let notifier = CommitNotifier::default();
    let mut late = pin!(notifier.subscribe());
    notifier.complete(CommitResult::Refused("full".into()));
    let waker = Waker::from(Arc::new(Count::default()));
    let result = late.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(matches!(result, Poll::Ready(CommitResult::Refused(what)) if &*what == "full"));
}
