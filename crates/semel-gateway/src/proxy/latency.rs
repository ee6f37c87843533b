//! The latency of the upstream's replies on accepted connections, measured per thread.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use semel_http::Route;

/// How many replies are averaged: few, so that they reflect the present load.
const AVERAGED: usize = 64;

/// The number of request classes. Classes with the same index are not distinguished.
const CLASSES: usize = 16;

thread_local! {
    static RECENT: RefCell<[Recent; CLASSES]> = const { RefCell::new([const { Recent::new() }; CLASSES]) };
}

/// Requests whose latencies are comparable: those of one route, with safe methods apart from others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestClass(usize);

struct Recent {
    times: [Duration; AVERAGED],
    /// How many have been recorded in total.
    recorded: usize,
}

/// Records the latency of a reply.
pub(super) fn note(class: RequestClass, took: Duration) {
    RECENT.with_borrow_mut(|recent| recent[class.0].note(took));
}

/// The mean latency of the last replies of the class, if there are any.
pub(super) fn mean(class: RequestClass) -> Option<Duration> {
    RECENT.with_borrow(|recent| recent[class.0].mean())
}

// === impl RequestClass ===

impl RequestClass {
    /// The class of a request, by its route and whether its method is safe.
    pub(super) fn of(route: Option<&Arc<Route>>, is_safe: bool) -> Self {
        // Its address in memory identifies a route; the lowest bits are the same for all.
        let route = route.map_or(0, |route| Arc::as_ptr(route).addr());
        let route = (route >> 4) ^ (route >> 9);
        Self((2 * (route % (CLASSES / 2))) + usize::from(is_safe))
    }
}

// === impl Recent ===

impl Recent {
    const fn new() -> Self {
        Self { times: [Duration::ZERO; AVERAGED], recorded: 0 }
    }

    const fn note(&mut self, took: Duration) {
        self.times[self.recorded % AVERAGED] = took;
        self.recorded = self.recorded.wrapping_add(1);
    }

    fn mean(&self) -> Option<Duration> {
        let times = &self.times[..self.recorded.min(AVERAGED)];
        let count = u32::try_from(times.len()).ok().filter(|count| *count > 0)?;
        Some(times.iter().sum::<Duration>() / count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A regression: executions on new connections took longer than reads on others, and the server was taken for slow
    /// to accept.
    #[test]
    fn safe_requests_and_executions_are_averaged_apart() {
        let [read, work] = [true, false].map(|is_safe| RequestClass::of(None, is_safe));
        assert_ne!(read, work);
        note(read, Duration::from_millis(1));
        assert_eq!((mean(read), mean(work)), (Some(Duration::from_millis(1)), None));
        note(work, Duration::from_secs(1));
        assert_eq!(mean(read), Some(Duration::from_millis(1)));
    }

    #[test]
    fn the_mean_is_of_the_last_replies() {
        let mut recent = Recent::new();
        assert_eq!(recent.mean(), None);
        let [short, long] = [1, 65].map(Duration::from_millis);
        recent.note(long);
        assert_eq!(recent.mean(), Some(long));
        for _ in 1..AVERAGED {
            recent.note(short);
        }
        assert_eq!(recent.mean(), Some(short * 2));
        recent.note(short);
        assert_eq!(recent.mean(), Some(short));
    }
}
