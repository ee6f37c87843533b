//! The deadlines of clients: each thread checks all its connections a few times a second.
//!
//! A timer for each connection, or even for each request, would be armed and dropped many times for nothing: few
//! clients miss a deadline. Checking all of them costs very little.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::activity::{Activity, ClientTimeouts};

thread_local! {
    /// The tick of the last check on this thread.
    static NOW: Cell<Tick> = const { Cell::new(Tick(1)) };
    static WATCHED: RefCell<Vec<Weak<Activity>>> = const { RefCell::new(Vec::new()) };
}

/// A time on this thread's own clock: milliseconds since the thread began, and never zero. The clock advances with each
/// check only, so that reading it is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tick(pub(crate) u64);

/// The time between two checks: a quarter of the shortest timeout, within bounds.
pub(crate) fn pause(timeouts: ClientTimeouts) -> Duration {
    let shortest = timeouts.header.min(timeouts.idle).min(timeouts.body);
    (shortest / 4).clamp(Duration::from_millis(10), Duration::from_millis(250))
}

/// The tick of the last check.
pub(crate) fn now() -> Tick {
    NOW.get()
}

/// Checks the deadlines of this client from now on, until it is dropped.
pub(crate) fn watch(activity: &Arc<Activity>) {
    WATCHED.with_borrow_mut(|watched| watched.push(Arc::downgrade(activity)));
}

/// Wakes every client past a deadline, or all of them if `everyone`.
pub(crate) fn check_deadlines(elapsed: Duration, everyone: bool) {
    let now = Tick(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX - 1) + 1);
    NOW.set(now);
    WATCHED.with_borrow_mut(|watched| {
        watched.retain(|activity| {
            let Some(activity) = activity.upgrade() else { return false };
            if everyone || activity.overdue(now).is_some() {
                activity.wake();
            }
            true
        });
    });
}

#[cfg(test)]
mod tests {
    use std::task::{Wake, Waker};

    use super::*;
    use crate::client::activity::ActivityKind;

    struct Bell(std::sync::atomic::AtomicUsize);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }

    #[test]
    fn overdue_clients_are_woken_and_dropped_ones_removed() {
        let bell = Arc::new(Bell(0.into()));
        let rings = || bell.0.load(std::sync::atomic::Ordering::Relaxed);
        let activity = Arc::new(Activity::new(ActivityKind::Http1, ClientTimeouts::DEFAULT));
        watch(&activity);
        activity.register_waker(&Waker::from(bell.clone()));
        assert!(activity.take_woken(), "the first check is its own");
        check_deadlines(Duration::from_secs(74), false);
        assert!(!activity.take_woken() && rings() == 0);
        check_deadlines(Duration::from_secs(80), false);
        assert!(activity.take_woken() && rings() == 1);
        activity.register_waker(&Waker::from(bell.clone()));
        check_deadlines(Duration::from_secs(81), true);
        assert!(activity.take_woken() && rings() == 2);
        drop(activity);
        check_deadlines(Duration::from_secs(82), false);
        WATCHED.with_borrow(|watched| assert!(watched.is_empty()));
    }

    #[test]
    fn the_pause_is_a_part_of_the_shortest_timeout() {
        assert_eq!(pause(ClientTimeouts::DEFAULT), Duration::from_millis(250));
        let short = ClientTimeouts { body: Duration::from_millis(200), ..ClientTimeouts::DEFAULT };
        assert_eq!(pause(short), Duration::from_millis(50));
    }
}
