//! What a client is doing, and for how long: the time limits of slow and idle clients.
//!
//! hyper's own timer for headers would be armed and dropped with every request. Here a request costs
//! a few relaxed writes; the thread's looks (`watch`) find who has taken too long.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use atomic_waker::AtomicWaker;
use tokio::time::Instant;

use super::watch::{self, Moment};

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// From the first byte of a request to the end of its headers.
    pub(crate) header: Duration,
    /// Between two requests, or two messages of a tunnel.
    pub(crate) idle: Duration,
    /// Between two pieces of a body, in either direction.
    pub(crate) body: Duration,
}

/// Why a client is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overdue {
    Header,
    Idle,
    Reading,
    Writing,
}

/// Whose notes they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A connection, and the one request on it.
    Http1,
    /// A connection; its requests have notes of their own.
    Http2,
    /// One request of an HTTP/2 connection.
    Stream,
    /// A connection that became a tunnel.
    Tunnel,
}

/// The notes of one client. Moments are those of its thread; zero is "not now".
#[derive(Debug)]
pub(crate) struct Activity {
    patience: Patience,
    kind: AtomicU8,
    /// What a stream belongs to.
    connection: Option<Arc<Self>>,
    /// Requests that are being served.
    requests: AtomicU32,
    /// When the last request ended, or the connection was accepted, or something moved.
    idle_since: AtomicU64,
    /// When the first byte of the next request came.
    header_since: AtomicU64,
    /// Since when a piece of a request's body is awaited.
    reading_since: AtomicU64,
    /// Since when the client takes nothing.
    writing_since: AtomicU64,
    upload: Upload,
    /// Is there a body that nobody will read? Then the client must get time to read our answer.
    lingers: AtomicBool,
    /// Is there something to look into?
    called: AtomicBool,
    task: AtomicWaker,
}

/// How a request's body comes along.
#[derive(Debug)]
struct Upload {
    began: Instant,
    /// Has it not ended yet?
    is_open: AtomicBool,
    /// Is its end, if it has come, beyond doubt? hyper may take the next request for trailers, where
    /// lines end in LF alone, so a body with trailers must be the last.
    is_doubtful: AtomicBool,
    /// When a piece of it was taken last, in milliseconds after `began`.
    moved: AtomicU64,
}

// === impl Activity ===

impl Activity {
    pub(crate) fn new(kind: Kind, patience: Patience) -> Self {
        Self {
            patience,
            kind: AtomicU8::new(kind as u8),
            connection: None,
            requests: AtomicU32::new(0),
            idle_since: AtomicU64::new(watch::now().0),
            header_since: AtomicU64::new(0),
            reading_since: AtomicU64::new(0),
            writing_since: AtomicU64::new(0),
            upload: Upload::new(),
            lingers: AtomicBool::new(false),
            // The first look is its own: who comes late finds the gateway going down already.
            called: AtomicBool::new(true),
            task: AtomicWaker::new(),
        }
    }

    /// The notes of one request, on the terms of its connection.
    pub(crate) fn stream(connection: &Arc<Self>) -> Self {
        let stream = Self::new(Kind::Stream, connection.patience);
        Self { connection: Some(connection.clone()), ..stream }
    }

    /// It is something else from now on.
    pub(crate) fn becomes(&self, kind: Kind) {
        self.kind.store(kind as u8, Ordering::Relaxed);
        note_now(&self.idle_since);
        self.header_since.store(0, Ordering::Relaxed);
    }

    fn is(&self, kind: Kind) -> bool {
        self.kind.load(Ordering::Relaxed) == kind as u8
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.is(Kind::Stream)
    }

    /// Bytes came.
    pub(crate) fn bytes_read(&self) {
        if self.is(Kind::Tunnel) {
            note_now(&self.idle_since);
        } else if self.is(Kind::Http1) && self.requests.load(Ordering::Relaxed) == 0 {
            note(&self.header_since, true);
        }
    }

    /// Bytes were written, or could not be. An HTTP/2 connection is not the busier for it: it
    /// exchanges frames that belong to no request.
    pub(crate) fn wrote(&self, has_moved: bool) {
        note(&self.writing_since, !has_moved);
        if has_moved && !self.is(Kind::Http2) {
            note_now(&self.idle_since);
        }
    }

    /// Has the client taken all it got?
    pub(crate) fn flushed(&self, is_done: bool) {
        note(&self.writing_since, !is_done);
    }

    /// A request's headers are complete.
    pub(crate) fn request_began(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.lingers.store(false, Ordering::Relaxed);
        self.upload.reset();
        self.header_since.store(0, Ordering::Relaxed);
    }

    /// Its response has been handed over.
    pub(crate) fn request_ended(&self) {
        note_now(&self.idle_since);
        self.requests.fetch_sub(1, Ordering::Relaxed);
    }

    /// A request has a body.
    pub(crate) fn upload_began(&self, is_sized: bool) {
        self.upload.is_open.store(true, Ordering::Relaxed);
        self.upload.is_doubtful.store(!is_sized, Ordering::Relaxed);
    }

    /// A piece of it is awaited (or came).
    pub(crate) fn awaits_body(&self, awaits: bool) {
        note(&self.reading_since, awaits);
    }

    /// Has the client taken too long with it?
    pub(crate) fn is_upload_late(&self) -> bool {
        self.due(&self.reading_since, self.patience.body) <= watch::now().0
    }

    /// It was read to its end.
    pub(crate) fn upload_ended(&self, has_trailers: bool) {
        self.upload.is_open.store(false, Ordering::Relaxed);
        self.upload.is_doubtful.store(has_trailers, Ordering::Relaxed);
        self.upload_moved();
    }

    /// A piece of it was taken.
    pub(crate) fn upload_moved(&self) {
        self.upload.moved.store(self.upload.elapsed(), Ordering::Relaxed);
    }

    /// Could a next request be taken for a part of this one?
    pub(crate) fn is_upload_doubtful(&self) -> bool {
        self.upload.is_doubtful.load(Ordering::Relaxed)
    }

    /// How long ago the last piece of the request's body was taken: not at all while the next is
    /// awaited. Who does not ask for more while there is more takes its own time.
    pub(crate) fn since_upload(&self) -> Duration {
        let is_awaited = self.reading_since.load(Ordering::Relaxed) > 0;
        if is_awaited && self.upload.is_open.load(Ordering::Relaxed) {
            return Duration::ZERO;
        }
        let moved = self.upload.moved.load(Ordering::Relaxed);
        Duration::from_millis(self.upload.elapsed().saturating_sub(moved))
    }

    /// The connection will be closed with a body unread.
    pub(crate) fn linger(&self) {
        self.lingers.store(true, Ordering::Relaxed);
    }

    pub(crate) fn lingers(&self) -> bool {
        self.lingers.load(Ordering::Relaxed)
    }

    /// This task is to be called.
    pub(crate) fn attend(&self, task: &Waker) {
        self.task.register(task);
    }

    /// There is something to look into.
    pub(crate) fn call(&self) {
        self.called.store(true, Ordering::Release);
        self.task.wake();
    }

    /// Was it called since it was last asked?
    pub(crate) fn was_called(&self) -> bool {
        self.called.load(Ordering::Relaxed) && self.called.swap(false, Ordering::Acquire)
    }

    /// What has taken too long, if anything.
    pub(crate) fn overdue(&self, now: Moment) -> Option<Overdue> {
        let is_due = |since, limit| self.due(since, limit) <= now.0;
        if self.is_writing() {
            // A stream waits for its turn as long as the connection itself cannot write.
            if self.connection.as_ref().is_some_and(|connection| connection.is_writing()) {
                self.writing_since.store(now.0, Ordering::Relaxed);
            }
            // Until it has taken its answer, a client is not idle.
            return is_due(&self.writing_since, self.patience.body).then_some(Overdue::Writing);
        }
        if self.requests.load(Ordering::Relaxed) > 0 || self.is(Kind::Stream) {
            return is_due(&self.reading_since, self.patience.body).then_some(Overdue::Reading);
        }
        if self.header_since.load(Ordering::Relaxed) > 0 {
            return is_due(&self.header_since, self.patience.header).then_some(Overdue::Header);
        }
        is_due(&self.idle_since, self.patience.idle).then_some(Overdue::Idle)
    }

    /// Does the client take nothing now?
    fn is_writing(&self) -> bool {
        self.writing_since.load(Ordering::Relaxed) > 0
    }

    /// When something is due that began at `since`; never, if it did not begin. What began just
    /// before a look may have been noted a whole pause too early.
    fn due(&self, since: &AtomicU64, limit: Duration) -> u64 {
        match since.load(Ordering::Relaxed) {
            0 => u64::MAX,
            since => {
                let limit = limit.saturating_add(watch::pause(self.patience)).as_millis();
                since.saturating_add(u64::try_from(limit).unwrap_or(u64::MAX))
            }
        }
    }
}

// === impl Patience ===

impl Patience {
    /// The default limits.
    #[cfg(test)]
    pub(crate) const USUAL: Self = Self {
        header: Duration::from_secs(10),
        idle: Duration::from_secs(75),
        body: Duration::from_secs(15),
    };
}

// === impl Upload ===

impl Upload {
    fn new() -> Self {
        Self {
            began: Instant::now(),
            is_open: AtomicBool::new(false),
            is_doubtful: AtomicBool::new(false),
            moved: AtomicU64::new(0),
        }
    }

    fn reset(&self) {
        self.is_open.store(false, Ordering::Relaxed);
        self.is_doubtful.store(false, Ordering::Relaxed);
    }

    fn elapsed(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

// === impl Overdue ===

impl From<Overdue> for std::io::Error {
    fn from(overdue: Overdue) -> Self {
        let what = match overdue {
            Overdue::Header => "headers took too long",
            Overdue::Idle => "it was idle for too long",
            Overdue::Reading => "a body took too long",
            Overdue::Writing => "the client takes too long to read",
        };
        Self::new(std::io::ErrorKind::TimedOut, what)
    }
}

/// Notes since when something is awaited: the first moment counts.
fn note(since: &AtomicU64, awaits: bool) {
    let is_noted = since.load(Ordering::Relaxed) > 0;
    match (awaits, is_noted) {
        (true, false) => note_now(since),
        (false, true) => since.store(0, Ordering::Relaxed),
        (true, true) | (false, false) => {}
    }
}

fn note_now(moment: &AtomicU64) {
    moment.store(watch::now().0, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn activity() -> Activity {
        at(0);
        Activity::new(Kind::Http1, Patience::USUAL)
    }

    fn at(second: u64) {
        watch::look(Duration::from_secs(second), false);
    }

    /// What is overdue first from now on if nothing happens, and after how many seconds.
    fn overdue(activity: &Activity) -> Option<(Overdue, u64)> {
        let began = watch::now().0;
        (0..1_000).find_map(|second| {
            let now = Moment(began + second * 1_000);
            activity.overdue(now).map(|overdue| (overdue, second - 1))
        })
    }

    #[test]
    fn a_connection_without_a_request_is_idle() {
        assert_eq!(overdue(&activity()), Some((Overdue::Idle, 75)));
    }

    #[test]
    fn slow_headers_are_cut_sooner() {
        let activity = activity();
        activity.bytes_read();
        at(5);
        activity.bytes_read();
        assert_eq!(overdue(&activity), Some((Overdue::Header, 5)));
    }

    #[test]
    fn a_request_may_take_its_time_but_its_body_may_not() {
        let activity = activity();
        activity.bytes_read();
        activity.request_began();
        assert_eq!(overdue(&activity), None);
        activity.awaits_body(true);
        at(10);
        activity.awaits_body(true);
        assert_eq!(overdue(&activity), Some((Overdue::Reading, 5)));
        assert!(!activity.is_upload_late());
        at(16);
        assert!(activity.is_upload_late());
        activity.awaits_body(false);
        activity.request_ended();
        assert_eq!(overdue(&activity), Some((Overdue::Idle, 75)));
    }

    #[test]
    fn a_client_that_takes_nothing_is_cut() {
        let activity = activity();
        activity.request_began();
        activity.wrote(false);
        assert_eq!(overdue(&activity), Some((Overdue::Writing, 15)));
    }

    #[test]
    fn a_client_that_takes_its_answer_slowly_is_not_idle() {
        let activity = activity();
        activity.request_began();
        // hyper holds the rest of the answer: for us the request has ended.
        activity.request_ended();
        for second in (0..300).step_by(10) {
            at(second);
            activity.wrote(false);
            assert_eq!(activity.overdue(watch::now()), None);
            activity.wrote(true);
        }
        assert_eq!(overdue(&activity), Some((Overdue::Idle, 75)));
    }

    #[test]
    fn what_was_flushed_is_not_awaited() {
        let activity = activity();
        activity.request_began();
        activity.flushed(false);
        at(10);
        activity.flushed(true);
        assert_eq!(overdue(&activity), None);
    }

    #[test]
    fn frames_of_no_request_keep_no_connection() {
        let activity = activity();
        activity.becomes(Kind::Http2);
        for second in (0..60).step_by(10) {
            at(second);
            activity.bytes_read();
            activity.wrote(true);
        }
        assert_eq!(overdue(&activity), Some((Overdue::Idle, 25)));
    }

    #[test]
    fn a_tunnel_lives_as_long_as_something_moves() {
        let activity = activity();
        activity.becomes(Kind::Tunnel);
        at(50);
        activity.bytes_read();
        assert_eq!(overdue(&activity), Some((Overdue::Idle, 75)));
        at(100);
        activity.wrote(true);
        assert_eq!(overdue(&activity), Some((Overdue::Idle, 75)));
    }

    #[test]
    fn a_stream_is_never_idle_but_may_be_stuck() {
        let connection = Arc::new(activity());
        connection.becomes(Kind::Http2);
        let stream = Activity::stream(&connection);
        assert_eq!(overdue(&stream), None);
        stream.wrote(false);
        assert_eq!(overdue(&stream), Some((Overdue::Writing, 15)));
        // While the connection cannot write, all its streams wait.
        connection.wrote(false);
        assert_eq!(stream.overdue(Moment(100_000)), None);
        connection.wrote(true);
        assert_eq!(stream.overdue(Moment(110_000)), None);
        assert_eq!(stream.overdue(Moment(120_000)), Some(Overdue::Writing));
    }

    #[tokio::test(start_paused = true)]
    async fn an_upload_is_still_going_on_until_it_ends() {
        let activity = activity();
        activity.request_began();
        activity.upload_began(false);
        activity.upload_moved();
        activity.awaits_body(true);
        tokio::time::advance(Duration::from_mins(1)).await;
        assert!(activity.is_upload_doubtful());
        assert_eq!(activity.since_upload(), Duration::ZERO);
        // A piece came, and nobody has asked for the next.
        activity.awaits_body(false);
        activity.upload_moved();
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(activity.since_upload(), Duration::from_secs(2));
        activity.upload_ended(false);
        assert!(!activity.is_upload_doubtful());
        tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(activity.since_upload(), Duration::from_secs(3));
    }
}
