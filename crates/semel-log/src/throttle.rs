use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until};
use tracing::Level;
use tracing::level_filters::LevelFilter;

/// The time in which one line of a kind is written.
const PERIOD: Duration = Duration::from_secs(1);
/// How long after that a line of the kind itself may come, before the number alone is written: a line of a storm
/// that continues carries more.
const GRACE: Duration = Duration::from_millis(200);

/// The message of a line that has only the number.
pub const LEFT_OUT: &str = "log lines were left out";

/// Writes at most one line per second of one kind, and how many were left out. Clones are the same kind.
///
/// The last number is written by a task of the runtime on which the first line was left out; if that ends, at its end.
/// Without a runtime it comes with the next line, or when the last clone is dropped.
#[derive(Clone)]
pub struct Throttle(Arc<Kind>);

struct Kind {
    level: Level,
    /// Writes how many lines were left out, when no further line comes.
    summary: Box<dyn Fn(u64) + Send + Sync>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// When the next line may be written; `None` before the first.
    next: Option<Instant>,
    left_out: u64,
    has_summariser: bool,
}

/// Writes the last number. Dropped before its time, it does so at once.
struct Summariser(Option<Arc<Kind>>);

// === impl Throttle ===

impl Throttle {
    /// A kind of lines of this level and name, under which the last number is written.
    pub fn of(kind: &'static str, level: Level) -> Self {
        Self::new(level, move |left_out| match level {
            Level::ERROR => tracing::error!(of = kind, left_out, "{LEFT_OUT}"),
            Level::WARN => tracing::warn!(of = kind, left_out, "{LEFT_OUT}"),
            _ => tracing::info!(of = kind, left_out, "{LEFT_OUT}"),
        })
    }

    /// A kind of lines of this level. `summary` writes how many were left out when no further line comes.
    pub fn new(level: Level, summary: impl Fn(u64) + Send + Sync + 'static) -> Self {
        Self(Arc::new(Kind { level, summary: Box::new(summary), state: Mutex::default() }))
    }

    /// Writes a line if the last one is long enough ago. `write` gets how many were left out before it, if any: a
    /// field that is `None` is not written.
    pub fn line(&self, write: impl FnOnce(Option<u64>)) {
        // What is not logged is not counted either.
        if self.0.level > LevelFilter::current() {
            return;
        }
        let now = Instant::now();
        let mut state = self.0.state();
        if state.next.is_none_or(|next| next <= now) {
            let left_out = state.begin(now);
            drop(state);
            return write((left_out > 0).then_some(left_out));
        }
        state.left_out += 1;
        let has_summariser = mem::replace(&mut state.has_summariser, true);
        drop(state);
        if !has_summariser {
            Summariser::start(&self.0);
        }
    }
}

impl fmt::Debug for Throttle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Throttle").field("level", &self.0.level).finish_non_exhaustive()
    }
}

// === impl Kind ===

impl Kind {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in it is half done when a subscriber panics, which is called without the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn summarise(&self, left_out: u64) {
        if left_out > 0 {
            (self.summary)(left_out);
        }
    }

    /// When the last number is due; `None` if there is none, and then the summariser ends.
    fn due(&self) -> Option<Instant> {
        let mut state = self.state();
        state.has_summariser = state.left_out > 0;
        state.next.filter(|_| state.has_summariser).map(|next| next + GRACE)
    }

    /// Writes the number if no line came that could carry it.
    fn summarise_if_due(&self) {
        let now = Instant::now();
        let mut state = self.state();
        let is_due = state.next.is_none_or(|next| next + GRACE <= now);
        let left_out = if is_due { state.begin(now) } else { 0 };
        drop(state);
        self.summarise(left_out);
    }
}

impl Drop for Kind {
    fn drop(&mut self) {
        let left_out = mem::take(&mut self.state().left_out);
        self.summarise(left_out);
    }
}

// === impl State ===

impl State {
    /// A line is written now. Returns how many were left out.
    fn begin(&mut self, now: Instant) -> u64 {
        self.next = Some(now + PERIOD);
        mem::take(&mut self.left_out)
    }
}

// === impl Summariser ===

impl Summariser {
    fn start(kind: &Arc<Kind>) {
        match Handle::try_current() {
            Ok(runtime) => {
                runtime.spawn(Self(Some(kind.clone())).run());
            }
            Err(_) => kind.state().has_summariser = false,
        }
    }

    async fn run(mut self) {
        while let Some(kind) = &self.0 {
            match kind.due() {
                Some(due) => {
                    sleep_until(due).await;
                    kind.summarise_if_due();
                }
                None => self.0 = None,
            }
        }
    }
}

impl Drop for Summariser {
    fn drop(&mut self) {
        if let Some(kind) = self.0.take() {
            let mut state = kind.state();
            state.has_summariser = false;
            let left_out = mem::take(&mut state.left_out);
            drop(state);
            kind.summarise(left_out);
        }
    }
}

#[cfg(test)]
mod tests;
