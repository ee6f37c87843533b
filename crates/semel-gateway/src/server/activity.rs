//! What a connection is doing, and for how long: the time limits of slow and idle clients.
//!
//! hyper's own timer for headers would be armed and dropped with every request. Here a request costs
//! a few atomic writes, and each connection has one timer that is set anew only when it fires.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// From the first byte of a request to the end of its headers.
    pub(crate) header: Duration,
    /// Between two requests.
    pub(crate) idle: Duration,
    /// Between two pieces of a body, in either direction.
    pub(crate) body: Duration,
}

/// Why a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overdue {
    Header,
    Idle,
    Reading,
    Writing,
}

/// The notes of one connection. Moments are in milliseconds since it was accepted, plus one; zero is
/// "not now".
#[derive(Debug)]
pub(crate) struct Activity {
    accepted: Instant,
    /// Requests that are being served.
    requests: AtomicU32,
    /// When the last request ended, or the connection was accepted.
    idle_since: AtomicU64,
    /// When the first byte of the next request came.
    header_since: AtomicU64,
    /// Since when a piece of a request's body is awaited.
    reading_since: AtomicU64,
    /// Since when the client takes nothing.
    writing_since: AtomicU64,
    /// Is there a body that nobody will read? Then the client must get time to read our answer.
    lingers: AtomicBool,
    /// Did the request have trailers? Then no other may follow it.
    had_trailers: AtomicBool,
}

// === impl Activity ===

impl Activity {
    pub(crate) fn new() -> Self {
        Self {
            accepted: Instant::now(),
            requests: AtomicU32::new(0),
            idle_since: AtomicU64::new(1),
            header_since: AtomicU64::new(0),
            reading_since: AtomicU64::new(0),
            writing_since: AtomicU64::new(0),
            lingers: AtomicBool::new(false),
            had_trailers: AtomicBool::new(false),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.accepted.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }

    /// Bytes came.
    pub(crate) fn bytes_read(&self) {
        if self.requests.load(Ordering::Relaxed) == 0
            && self.header_since.load(Ordering::Relaxed) == 0
        {
            self.header_since.store(self.now(), Ordering::Relaxed);
        }
    }

    /// A request's headers are complete.
    pub(crate) fn request_began(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.lingers.store(false, Ordering::Relaxed);
        self.had_trailers.store(false, Ordering::Relaxed);
        self.header_since.store(0, Ordering::Relaxed);
    }

    /// Its response has been handed over.
    pub(crate) fn request_ended(&self) {
        self.idle_since.store(self.now(), Ordering::Relaxed);
        self.reading_since.store(0, Ordering::Relaxed);
        self.requests.fetch_sub(1, Ordering::Relaxed);
    }

    /// A piece of a body is awaited (or came).
    pub(crate) fn awaits_body(&self, awaits: bool) {
        note(&self.reading_since, awaits, || self.now());
    }

    /// The client takes nothing now (or did).
    pub(crate) fn awaits_writing(&self, awaits: bool) {
        note(&self.writing_since, awaits, || self.now());
    }

    /// The connection will be closed with a body unread.
    pub(crate) fn linger(&self) {
        self.lingers.store(true, Ordering::Relaxed);
    }

    pub(crate) fn lingers(&self) -> bool {
        self.lingers.load(Ordering::Relaxed)
    }

    /// The request's body ended in trailers.
    pub(crate) fn trailers_came(&self) {
        self.had_trailers.store(true, Ordering::Relaxed);
    }

    pub(crate) fn had_trailers(&self) -> bool {
        self.had_trailers.load(Ordering::Relaxed)
    }

    /// Ends when the client has taken too long.
    pub(crate) async fn overdue(&self, patience: Patience) -> Overdue {
        // What begins while this sleeps may have a shorter limit than what it sleeps for.
        let nap = patience.header.min(patience.idle).min(patience.body);
        loop {
            let now = self.now();
            match self.next(patience) {
                Some((deadline, overdue)) if deadline <= now => return overdue,
                next => {
                    let wait =
                        next.map_or(nap, |(deadline, _)| Duration::from_millis(deadline - now));
                    sleep_until(Instant::now() + wait.min(nap)).await;
                }
            }
        }
    }

    /// What is due next, and when.
    fn next(&self, patience: Patience) -> Option<(u64, Overdue)> {
        let due = |since: &AtomicU64, limit: Duration, overdue| {
            let since = since.load(Ordering::Relaxed);
            let limit = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
            (since > 0).then(|| (since.saturating_add(limit), overdue))
        };
        let busy = self.requests.load(Ordering::Relaxed) > 0;
        let waiting = if busy {
            due(&self.reading_since, patience.body, Overdue::Reading)
        } else {
            due(&self.header_since, patience.header, Overdue::Header)
                .or_else(|| due(&self.idle_since, patience.idle, Overdue::Idle))
        };
        let stuck = due(&self.writing_since, patience.body, Overdue::Writing);
        [waiting, stuck].into_iter().flatten().min_by_key(|(deadline, _)| *deadline)
    }
}

/// Notes since when something is awaited: the first moment counts.
fn note(since: &AtomicU64, awaits: bool, now: impl FnOnce() -> u64) {
    let noted = since.load(Ordering::Relaxed) > 0;
    match (awaits, noted) {
        (true, false) => since.store(now(), Ordering::Relaxed),
        (false, true) => since.store(0, Ordering::Relaxed),
        (true, true) | (false, false) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience = Patience {
        header: Duration::from_secs(10),
        idle: Duration::from_secs(75),
        body: Duration::from_secs(15),
    };

    async fn overdue(activity: &Activity) -> (Overdue, u64) {
        let began = Instant::now();
        let overdue = activity.overdue(PATIENCE).await;
        (overdue, began.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_request_is_idle() {
        let activity = Activity::new();
        assert_eq!(overdue(&activity).await, (Overdue::Idle, 75));
    }

    #[tokio::test(start_paused = true)]
    async fn slow_headers_are_cut_sooner() {
        let activity = Activity::new();
        activity.bytes_read();
        assert_eq!(overdue(&activity).await, (Overdue::Header, 10));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_may_take_its_time_but_its_body_may_not() {
        let activity = Activity::new();
        activity.bytes_read();
        activity.request_began();
        let patient = tokio::time::timeout(Duration::from_secs(1_000), activity.overdue(PATIENCE));
        assert!(patient.await.is_err());
        activity.awaits_body(true);
        activity.awaits_body(true);
        assert_eq!(overdue(&activity).await, (Overdue::Reading, 15));
        activity.awaits_body(false);
        activity.request_ended();
        assert_eq!(overdue(&activity).await, (Overdue::Idle, 75));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_cut() {
        let activity = Activity::new();
        activity.request_began();
        activity.awaits_writing(true);
        assert_eq!(overdue(&activity).await, (Overdue::Writing, 15));
    }

    #[tokio::test(start_paused = true)]
    async fn what_begins_later_is_noticed() {
        let activity = std::sync::Arc::new(Activity::new());
        let late = activity.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(5)).await;
            late.bytes_read();
        });
        let (overdue, after) = overdue(&activity).await;
        assert_eq!(overdue, Overdue::Header);
        assert!((15..=25).contains(&after), "{after}");
    }
}
