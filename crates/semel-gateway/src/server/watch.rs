//! Looking after clients: each thread looks at all its connections a few times a second.
//!
//! A timer for each connection, let alone for each request, would be set and dropped many times for
//! nothing: hardly any client takes too long. A look at all of them costs next to nothing.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::activity::{Activity, Patience};

thread_local! {
    /// When this thread looked last.
    static NOW: Cell<Moment> = const { Cell::new(Moment(1)) };
    static WATCHED: RefCell<Vec<Weak<Activity>>> = const { RefCell::new(Vec::new()) };
}

/// A moment on this thread's own clock: milliseconds since it began, and never zero. It stands still
/// between two looks, so that reading it is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) u64);

/// How often a thread looks: often enough for the shortest limit to be kept well.
pub(crate) fn pause(patience: Patience) -> Duration {
    let shortest = patience.header.min(patience.idle).min(patience.body);
    (shortest / 4).clamp(Duration::from_millis(10), Duration::from_millis(250))
}

/// The moment of the last look.
pub(crate) fn now() -> Moment {
    NOW.get()
}

/// Looks after this client from now on, until it is gone.
pub(crate) fn watch(activity: &Arc<Activity>) {
    WATCHED.with_borrow_mut(|watched| watched.push(Arc::downgrade(activity)));
}

/// Looks at all clients, and calls those who have taken too long: or everyone.
pub(crate) fn look(elapsed: Duration, everyone: bool) {
    let now = Moment(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX - 1) + 1);
    NOW.set(now);
    WATCHED.with_borrow_mut(|watched| {
        watched.retain(|activity| {
            let Some(activity) = activity.upgrade() else { return false };
            if everyone || activity.overdue(now).is_some() {
                activity.call();
            }
            true
        });
    });
}

#[cfg(test)]
mod tests {
    use std::task::{Wake, Waker};

    use super::*;
    use crate::server::activity::Kind;

    struct Bell(std::sync::atomic::AtomicUsize);

    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }

    #[test]
    fn who_takes_too_long_is_called_and_who_is_gone_is_forgotten() {
        let bell = Arc::new(Bell(0.into()));
        let rings = || bell.0.load(std::sync::atomic::Ordering::Relaxed);
        let activity = Arc::new(Activity::new(Kind::Http1, Patience::USUAL));
        watch(&activity);
        activity.attend(&Waker::from(bell.clone()));
        assert!(activity.was_called(), "the first look is its own");
        look(Duration::from_secs(74), false);
        assert!(!activity.was_called() && rings() == 0);
        look(Duration::from_secs(80), false);
        assert!(activity.was_called() && rings() == 1);
        activity.attend(&Waker::from(bell.clone()));
        look(Duration::from_secs(81), true);
        assert!(activity.was_called() && rings() == 2);
        drop(activity);
        look(Duration::from_secs(82), false);
        WATCHED.with_borrow(|watched| assert!(watched.is_empty()));
    }

    #[test]
    fn the_shortest_limit_says_how_often() {
        assert_eq!(pause(Patience::USUAL), Duration::from_millis(250));
        let short = Patience { body: Duration::from_millis(200), ..Patience::USUAL };
        assert_eq!(pause(short), Duration::from_millis(50));
    }
}
