//! The limit of connections to the upstream on probation: opened, but without a first reply.
//!
//! A server accepts connections one by one between its other work, and the system completes their handshakes before. A
//! request on a connection that the server has not accepted waits behind all earlier ones in the backlog, while other
//! connections become idle. So only a few are opened at a time, and a waiting request takes one that becomes idle.
//!
//! If the server is slow to answer, no connection becomes idle soon: then the window doubles repeatedly while requests
//! wait. The two cases differ in the latency of the first reply on a new connection, compared with replies on accepted
//! ones: where first replies take longer, the window shrinks again, for what is opened meanwhile only lengthens the
//! backlog.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout_at};

/// The size of the window at first, and while few connections are on probation.
const SIZE_MIN: usize = 2;
/// How long a request waits before the window grows.
const GROWTH_INTERVAL: Duration = Duration::from_millis(10);
/// The same for a server that is slow to accept. It still grows: the requests on new connections may be of another,
/// slower kind.
const SLOW_GROWTH_INTERVAL: Duration = Duration::from_millis(100);
/// How long a server counts as slow to accept after it was found to be. The window that results is small, and hides what
/// it results from.
const SLOW_FOR: Duration = Duration::from_mins(10);
/// A server is slow to accept if first replies take longer than others by this ratio.
const SLOW_RATIO: f64 = 1.5;
/// The weight of the latest first reply in the moving average.
const WEIGHT: f64 = 0.125;

/// The window, shared by all threads.
#[derive(Debug)]
pub(super) struct ConnectWindow {
    permits: Arc<Semaphore>,
    state: Mutex<State>,
}

/// A permit of the window, held until the first reply on its connection.
#[derive(Debug)]
pub(crate) struct ProbationPermit {
    window: Arc<ConnectWindow>,
    permit: Option<OwnedSemaphorePermit>,
}

#[derive(Debug)]
struct State {
    size: usize,
    /// How many connections are on probation.
    inside: usize,
    grown: Option<Instant>,
    /// The latency of first replies as a multiple of that of others, as a moving average.
    ratio: f64,
    /// When that was last too much.
    slow: Option<Instant>,
}

// === impl ConnectWindow ===

impl ConnectWindow {
    pub(super) fn new() -> Arc<Self> {
        let state = State { size: SIZE_MIN, inside: 0, grown: None, ratio: 1.0, slow: None };
        Arc::new(Self { permits: Arc::new(Semaphore::new(SIZE_MIN)), state: Mutex::new(state) })
    }

    /// Waits for a permit, first come, first served, and does without one at `latest`. Cancel-safe.
    pub(super) async fn enter(self: &Arc<Self>, latest: Instant) -> ProbationPermit {
        let permit = match self.permits.clone().try_acquire_owned() {
            Ok(permit) => Some(permit),
            Err(_) => timeout_at(latest, self.wait()).await.unwrap_or_default(),
        };
        self.lock().inside += 1;
        ProbationPermit { window: self.clone(), permit }
    }

    async fn wait(&self) -> Option<OwnedSemaphorePermit> {
        let mut permit = std::pin::pin!(self.permits.clone().acquire_owned());
        let began = Instant::now();
        loop {
            tokio::select! {
                biased;
                // It is never closed.
                permit = &mut permit => return permit.ok(),
                () = sleep(GROWTH_INTERVAL) => {
                    let mut state = self.lock();
                    self.permits.add_permits(state.grow(Instant::now(), began));
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl State ===

impl State {
    /// Doubles for a request that has waited since `began`, unless it has just grown. Returns by how much.
    fn grow(&mut self, now: Instant, began: Instant) -> usize {
        let is_slow = self.slow.is_some_and(|slow| now.duration_since(slow) < SLOW_FOR);
        let min_wait = if is_slow { SLOW_GROWTH_INTERVAL } else { GROWTH_INTERVAL };
        let is_due = |since: Instant| now.duration_since(since) >= min_wait;
        if !is_due(began) || !self.grown.is_none_or(is_due) {
            return 0;
        }
        let more = self.size.min(Semaphore::MAX_PERMITS / 2 - self.size);
        self.size += more;
        self.grown = Some(now);
        more
    }

    /// By how much it shrinks when a connection leaves it: by half if little of it is used, and by that connection if
    /// the server is slow to accept.
    fn surplus(&self) -> usize {
        let surplus = match () {
            () if self.inside < self.size / 4 => self.size / 2,
            () if self.ratio > SLOW_RATIO => 1,
            () => 0,
        };
        surplus.min(self.size - SIZE_MIN)
    }
}

// === impl ProbationPermit ===

impl ProbationPermit {
    /// Records the latency of the first reply on the connection, where others take `typical`.
    pub(super) fn answered(self, took: Duration, typical: Option<Duration>) {
        if let Some(typical) = typical {
            let ratio = took.as_secs_f64() / typical.as_secs_f64().max(1e-6);
            let mut state = self.window.lock();
            // Capped, so that a single very late reply has no lasting effect.
            state.ratio += (ratio.min(4.0 * SLOW_RATIO) - state.ratio) * WEIGHT;
            if state.ratio > SLOW_RATIO {
                state.slow = Some(Instant::now());
            }
        }
    }
}

impl Drop for ProbationPermit {
    fn drop(&mut self) {
        let mut state = self.window.lock();
        state.inside -= 1;
        let mut surplus = state.surplus();
        // Its own permit first: a permit that is returned goes to the first waiting request at once.
        if surplus > 0
            && let Some(permit) = self.permit.take()
        {
            permit.forget();
            state.size -= 1;
            surplus -= 1;
        }
        drop(self.permit.take());
        state.size -= self.window.permits.forget_permits(surplus);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, timeout};

    use super::*;

    const TYPICAL: Option<Duration> = Some(Duration::from_millis(10));

    fn far() -> Instant {
        Instant::now() + Duration::from_hours(1)
    }

    /// Acquires `count` permits; returns them and how long that took.
    async fn enter(window: &Arc<ConnectWindow>, count: usize) -> (Vec<ProbationPermit>, Duration) {
        let began = Instant::now();
        let mut inside = Vec::new();
        for _ in 0..count {
            inside.push(window.enter(far()).await);
        }
        (inside, began.elapsed())
    }

    /// Records `count` first replies that take `times` as long as others.
    async fn answer(window: &Arc<ConnectWindow>, count: usize, times: u32) {
        for _ in 0..count {
            window.enter(far()).await.answered(TYPICAL.unwrap() * times, TYPICAL);
        }
    }

    fn size(window: &ConnectWindow) -> usize {
        window.lock().size
    }

    #[tokio::test(start_paused = true)]
    async fn few_connections_are_on_probation_while_replies_arrive() {
        let window = ConnectWindow::new();
        let (mut inside, took) = enter(&window, SIZE_MIN).await;
        assert_eq!(took, Duration::ZERO);
        for _ in 0..1_000 {
            let mut next = Box::pin(window.enter(far()));
            assert!(timeout(Duration::from_millis(1), &mut next).await.is_err());
            inside.pop();
            inside.push(next.await);
        }
        assert_eq!(size(&window), SIZE_MIN);
    }

    #[tokio::test(start_paused = true)]
    async fn the_window_doubles_while_no_reply_arrives() {
        let window = ConnectWindow::new();
        let (inside, took) = enter(&window, 256).await;
        // 2, 4, 8, 16, 32, 64, 128, 256.
        assert!(took < GROWTH_INTERVAL * 8, "{took:?}");
        drop(inside);
        assert_eq!((size(&window), window.permits.available_permits()), (SIZE_MIN, SIZE_MIN));
    }

    #[tokio::test(start_paused = true)]
    async fn slow_to_accept_and_slow_to_answer_are_distinguished() {
        let window = ConnectWindow::new();
        answer(&window, 10, 3).await;
        let (inside, _) = enter(&window, SIZE_MIN).await;
        let began = Instant::now();
        let grow = || window.lock().grow(Instant::now(), began);
        advance(GROWTH_INTERVAL).await;
        assert_eq!(grow(), 0);
        // It grows in the end: the requests on new connections may be of a slower kind.
        advance(SLOW_GROWTH_INTERVAL).await;
        assert_eq!((grow(), grow()), (SIZE_MIN, 0));
        // It accepts without delay again: a small window may be the cause, so that counts after a while.
        drop(inside);
        answer(&window, 20, 1).await;
        advance(GROWTH_INTERVAL).await;
        assert_eq!(grow(), 0);
        advance(SLOW_FOR).await;
        assert_eq!((grow(), grow()), (size(&window) / 2, 0));
    }

    /// A regression: the window had grown before the first replies came, and stayed as large as the requests that waited
    /// kept it, so that a server that accepts one connection at a time always had a long backlog.
    #[tokio::test(start_paused = true)]
    async fn the_window_shrinks_while_the_server_is_slow_to_accept() {
        let window = ConnectWindow::new();
        let (inside, _) = enter(&window, 32).await;
        assert_eq!(size(&window), 32);
        let mut waiting: Vec<_> = (0..64).map(|_| Box::pin(window.enter(far()))).collect();
        for request in &mut waiting {
            assert!(timeout(Duration::ZERO, request).await.is_err());
        }
        for permit in inside {
            permit.answered(TYPICAL.unwrap() * 3, TYPICAL);
        }
        assert_eq!(size(&window), SIZE_MIN);
    }

    /// A request must not be refused because of connections on probation.
    #[tokio::test(start_paused = true)]
    async fn a_request_at_its_deadline_needs_no_permit() {
        let window = ConnectWindow::new();
        answer(&window, 10, 3).await;
        let (mut inside, _) = enter(&window, SIZE_MIN).await;
        let began = Instant::now();
        inside.push(window.enter(began + GROWTH_INTERVAL * 5).await);
        assert_eq!((began.elapsed(), size(&window)), (GROWTH_INTERVAL * 5, SIZE_MIN));
        drop(inside);
        assert_eq!((size(&window), window.permits.available_permits()), (SIZE_MIN, SIZE_MIN));
    }

    #[tokio::test(start_paused = true)]
    async fn one_late_reply_has_little_effect() {
        let window = ConnectWindow::new();
        answer(&window, 1, 1_000_000).await;
        answer(&window, 4, 1).await;
        assert!(window.lock().ratio < SLOW_RATIO, "{}", window.lock().ratio);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_wait_takes_no_permit() {
        let window = ConnectWindow::new();
        let (inside, _) = enter(&window, SIZE_MIN).await;
        let mut gone = Box::pin(window.enter(far()));
        assert!(timeout(Duration::from_millis(1), &mut gone).await.is_err());
        drop(gone);
        drop(inside);
        assert_eq!(enter(&window, SIZE_MIN).await.1, Duration::ZERO);
    }
}
