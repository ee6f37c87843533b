//! The activity of a client, and since when: the time limits of slow and idle clients.
//!
//! hyper's own timer for headers would be armed and dropped with every request. Here a request costs a few relaxed
//! writes, and a periodic check on each thread (`watch`) finds the clients past a deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use atomic_waker::AtomicWaker;
use tokio::time::Instant;

use super::watch::{self, Tick};

/// The time limits of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientTimeouts {
    /// From the first byte of a request to the end of its headers.
    pub(crate) header: Duration,
    /// Between two requests, or two messages of a tunnel.
    pub(crate) idle: Duration,
    /// Between two pieces of a body, in either direction.
    pub(crate) body: Duration,
}

/// The deadline that a client has missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overdue {
    Header,
    Idle,
    Reading,
    Writing,
}

/// The kind of connection or request that an activity describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ActivityKind {
    /// A connection, and the one request on it.
    Http1,
    /// A connection; its requests have activities of their own.
    Http2,
    /// One request of an HTTP/2 connection.
    Stream,
    /// A connection that became a tunnel.
    Tunnel,
}

/// The activity of one client. Times are ticks of its thread; zero means that the state is not entered.
#[derive(Debug)]
pub(crate) struct Activity {
    timeouts: ClientTimeouts,
    kind: AtomicU8,
    /// The connection of a stream.
    connection: Option<Arc<Self>>,
    /// Requests that are being served.
    requests: AtomicU32,
    /// When the last request ended, or the connection was accepted, or bytes were transferred.
    idle_since: AtomicU64,
    /// When the first byte of the next request was received.
    header_since: AtomicU64,
    /// Since when the next frame of a request's body is awaited.
    reading_since: AtomicU64,
    /// Since when the client accepts no bytes.
    writing_since: AtomicU64,
    upload: Upload,
    /// Whether a body is left unread: then the connection is closed in steps, so that the client can read the response.
    lingers: AtomicBool,
    /// Whether the task was woken to check its deadlines or a shutdown.
    woken: AtomicBool,
    task: AtomicWaker,
}

/// The progress of a request's body.
#[derive(Debug)]
struct Upload {
    began: Instant,
    /// Whether it has begun and not ended.
    is_open: AtomicBool,
    /// Whether its end is in doubt. hyper may parse the next request as trailers, where lines end in LF alone, so a
    /// body with trailers must be the last.
    is_doubtful: AtomicBool,
    /// When a frame of it was last read, in milliseconds after `began`.
    moved: AtomicU64,
}

// === impl Activity ===

impl Activity {
    pub(crate) fn new(kind: ActivityKind, timeouts: ClientTimeouts) -> Self {
        Self {
            timeouts,
            kind: AtomicU8::new(kind as u8),
            connection: None,
            requests: AtomicU32::new(0),
            idle_since: AtomicU64::new(watch::now().0),
            header_since: AtomicU64::new(0),
            reading_since: AtomicU64::new(0),
            writing_since: AtomicU64::new(0),
            upload: Upload::new(),
            lingers: AtomicBool::new(false),
            // The task checks once when it begins: a shutdown may have begun before it.
            woken: AtomicBool::new(true),
            task: AtomicWaker::new(),
        }
    }

    /// The activity of one request, with the timeouts of its connection.
    pub(crate) fn stream(connection: &Arc<Self>) -> Self {
        let stream = Self::new(ActivityKind::Stream, connection.timeouts);
        Self { connection: Some(connection.clone()), ..stream }
    }

    /// Changes the kind, for instance when a connection becomes a tunnel.
    pub(crate) fn becomes(&self, kind: ActivityKind) {
        self.kind.store(kind as u8, Ordering::Relaxed);
        set_now(&self.idle_since);
        self.header_since.store(0, Ordering::Relaxed);
    }

    fn is(&self, kind: ActivityKind) -> bool {
        self.kind.load(Ordering::Relaxed) == kind as u8
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.is(ActivityKind::Stream)
    }

    /// Bytes were received.
    pub(crate) fn bytes_read(&self) {
        if self.is(ActivityKind::Tunnel) {
            set_now(&self.idle_since);
        } else if self.is(ActivityKind::Http1) && self.requests.load(Ordering::Relaxed) == 0 {
            set_since(&self.header_since, true);
        }
    }

    /// Bytes were written, or could not be. They do not end the idle time of an HTTP/2 connection, which also exchanges
    /// frames that belong to no request.
    pub(crate) fn wrote(&self, has_moved: bool) {
        set_since(&self.writing_since, !has_moved);
        if has_moved && !self.is(ActivityKind::Http2) {
            set_now(&self.idle_since);
        }
    }

    /// Whether all that was written has been sent.
    pub(crate) fn flushed(&self, is_done: bool) {
        set_since(&self.writing_since, !is_done);
    }

    /// A request's headers are complete.
    pub(crate) fn request_began(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.lingers.store(false, Ordering::Relaxed);
        self.upload.reset();
        self.header_since.store(0, Ordering::Relaxed);
    }

    /// Its response is complete.
    pub(crate) fn request_ended(&self) {
        set_now(&self.idle_since);
        self.requests.fetch_sub(1, Ordering::Relaxed);
    }

    /// A request has a body.
    pub(crate) fn upload_began(&self, is_sized: bool) {
        self.upload.is_open.store(true, Ordering::Relaxed);
        self.upload.is_doubtful.store(!is_sized, Ordering::Relaxed);
    }

    /// Its next frame is awaited, or was received.
    pub(crate) fn awaits_body(&self, awaits: bool) {
        set_since(&self.reading_since, awaits);
    }

    /// Whether its next frame is past the deadline.
    pub(crate) fn is_upload_late(&self) -> bool {
        self.due(&self.reading_since, self.timeouts.body) <= watch::now().0
    }

    /// It was read to its end.
    pub(crate) fn upload_ended(&self, has_trailers: bool) {
        self.upload.is_open.store(false, Ordering::Relaxed);
        self.upload.is_doubtful.store(has_trailers, Ordering::Relaxed);
        self.upload_moved();
    }

    /// A frame of it was read.
    pub(crate) fn upload_moved(&self) {
        self.upload.moved.store(self.upload.elapsed(), Ordering::Relaxed);
    }

    /// Whether the next request could be parsed as a part of this one.
    pub(crate) fn is_upload_doubtful(&self) -> bool {
        self.upload.is_doubtful.load(Ordering::Relaxed)
    }

    /// The time since the last frame of the request's body was read; zero while the next one is awaited. A reader that
    /// does not poll while there is more spends its own time.
    pub(crate) fn since_upload(&self) -> Duration {
        let is_awaited = self.reading_since.load(Ordering::Relaxed) > 0;
        if is_awaited && self.upload.is_open.load(Ordering::Relaxed) {
            return Duration::ZERO;
        }
        let moved = self.upload.moved.load(Ordering::Relaxed);
        Duration::from_millis(self.upload.elapsed().saturating_sub(moved))
    }

    /// The connection will be closed with an unread body.
    pub(crate) fn linger(&self) {
        self.lingers.store(true, Ordering::Relaxed);
    }

    pub(crate) fn lingers(&self) -> bool {
        self.lingers.load(Ordering::Relaxed)
    }

    /// Registers the task to be woken.
    pub(crate) fn register_waker(&self, task: &Waker) {
        self.task.register(task);
    }

    /// Wakes the task, to check its deadlines or a shutdown.
    pub(crate) fn wake(&self) {
        self.woken.store(true, Ordering::Release);
        self.task.wake();
    }

    /// Whether the task was woken since the last call.
    pub(crate) fn take_woken(&self) -> bool {
        self.woken.load(Ordering::Relaxed) && self.woken.swap(false, Ordering::Acquire)
    }

    /// The deadline that was missed at `now`, if any.
    pub(crate) fn overdue(&self, now: Tick) -> Option<Overdue> {
        let is_due = |since, limit| self.due(since, limit) <= now.0;
        if self.is_writing() {
            // While the connection itself cannot write, its streams have to wait.
            if self.connection.as_ref().is_some_and(|connection| connection.is_writing()) {
                self.writing_since.store(now.0, Ordering::Relaxed);
            }
            // Until it has received its response, a client is not idle.
            return is_due(&self.writing_since, self.timeouts.body).then_some(Overdue::Writing);
        }
        if self.requests.load(Ordering::Relaxed) > 0 || self.is(ActivityKind::Stream) {
            return is_due(&self.reading_since, self.timeouts.body).then_some(Overdue::Reading);
        }
        if self.header_since.load(Ordering::Relaxed) > 0 {
            return is_due(&self.header_since, self.timeouts.header).then_some(Overdue::Header);
        }
        is_due(&self.idle_since, self.timeouts.idle).then_some(Overdue::Idle)
    }

    /// Whether bytes for the client wait to be written.
    fn is_writing(&self) -> bool {
        self.writing_since.load(Ordering::Relaxed) > 0
    }

    /// The deadline of a state entered at `since`; none (the maximum), if it was not entered. Ticks stand still between
    /// checks, so `since` may be early by a whole pause.
    fn due(&self, since: &AtomicU64, limit: Duration) -> u64 {
        match since.load(Ordering::Relaxed) {
            0 => u64::MAX,
            since => {
                let limit = limit.saturating_add(watch::pause(self.timeouts)).as_millis();
                since.saturating_add(u64::try_from(limit).unwrap_or(u64::MAX))
            }
        }
    }
}

// === impl ClientTimeouts ===

impl ClientTimeouts {
    /// The default limits.
    #[cfg(test)]
    pub(crate) const DEFAULT: Self = Self {
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

/// Sets or clears since when something is awaited. The first tick is kept.
fn set_since(since: &AtomicU64, awaits: bool) {
    let is_noted = since.load(Ordering::Relaxed) > 0;
    match (awaits, is_noted) {
        (true, false) => set_now(since),
        (false, true) => since.store(0, Ordering::Relaxed),
        (true, true) | (false, false) => {}
    }
}

fn set_now(moment: &AtomicU64) {
    moment.store(watch::now().0, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn activity() -> Activity {
        at(0);
        Activity::new(ActivityKind::Http1, ClientTimeouts::DEFAULT)
    }

    fn at(second: u64) {
        watch::check_deadlines(Duration::from_secs(second), false);
    }

    /// The first deadline that is missed if nothing happens, and after how many seconds.
    fn overdue(activity: &Activity) -> Option<(Overdue, u64)> {
        let began = watch::now().0;
        (0..1_000).find_map(|second| {
            let now = Tick(began + second * 1_000);
            activity.overdue(now).map(|overdue| (overdue, second - 1))
        })
    }

    #[test]
    fn a_connection_without_a_request_is_idle() {
        assert_eq!(overdue(&activity()), Some((Overdue::Idle, 75)));
    }

    #[test]
    fn headers_have_a_shorter_deadline_than_idle_connections() {
        let activity = activity();
        activity.bytes_read();
        at(5);
        activity.bytes_read();
        assert_eq!(overdue(&activity), Some((Overdue::Header, 5)));
    }

    #[test]
    fn a_request_has_no_deadline_but_its_body_has() {
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
    fn a_client_that_reads_nothing_is_overdue() {
        let activity = activity();
        activity.request_began();
        activity.wrote(false);
        assert_eq!(overdue(&activity), Some((Overdue::Writing, 15)));
    }

    #[test]
    fn a_client_that_reads_its_response_slowly_is_not_idle() {
        let activity = activity();
        activity.request_began();
        // hyper buffers the rest of the response: here the request has ended.
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
    fn a_completed_flush_has_no_deadline() {
        let activity = activity();
        activity.request_began();
        activity.flushed(false);
        at(10);
        activity.flushed(true);
        assert_eq!(overdue(&activity), None);
    }

    #[test]
    fn frames_of_no_request_do_not_end_idle_time() {
        let activity = activity();
        activity.becomes(ActivityKind::Http2);
        for second in (0..60).step_by(10) {
            at(second);
            activity.bytes_read();
            activity.wrote(true);
        }
        assert_eq!(overdue(&activity), Some((Overdue::Idle, 25)));
    }

    #[test]
    fn a_tunnel_is_idle_only_without_traffic() {
        let activity = activity();
        activity.becomes(ActivityKind::Tunnel);
        at(50);
        activity.bytes_read();
        assert_eq!(overdue(&activity), Some((Overdue::Idle, 75)));
        at(100);
        activity.wrote(true);
        assert_eq!(overdue(&activity), Some((Overdue::Idle, 75)));
    }

    #[test]
    fn a_stream_is_never_idle_but_has_a_write_deadline() {
        let connection = Arc::new(activity());
        connection.becomes(ActivityKind::Http2);
        let stream = Activity::stream(&connection);
        assert_eq!(overdue(&stream), None);
        stream.wrote(false);
        assert_eq!(overdue(&stream), Some((Overdue::Writing, 15)));
        // While the connection cannot write, all its streams wait.
        connection.wrote(false);
        assert_eq!(stream.overdue(Tick(100_000)), None);
        connection.wrote(true);
        assert_eq!(stream.overdue(Tick(110_000)), None);
        assert_eq!(stream.overdue(Tick(120_000)), Some(Overdue::Writing));
    }

    #[tokio::test(start_paused = true)]
    async fn an_upload_is_in_progress_until_it_ends() {
        let activity = activity();
        activity.request_began();
        activity.upload_began(false);
        activity.upload_moved();
        activity.awaits_body(true);
        tokio::time::advance(Duration::from_mins(1)).await;
        assert!(activity.is_upload_doubtful());
        assert_eq!(activity.since_upload(), Duration::ZERO);
        // A frame was received, and the next is not polled for.
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
