//! Log lines of one execution, from its start to its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use semel_core::{Fence, OnUnknown, Outcome, RecordId, Reply};

use super::LiveRoute;

/// An execution whose start is not logged yet: an extension of the request under a layer that
/// [leaves that to its service](crate::SemelLayer::service_logs_start).
#[derive(Clone)]
pub struct ExecutionStart(Arc<Start>);

struct Start {
    route: Arc<LiveRoute>,
    id: RecordId,
    fence: Fence,
    is_logged: AtomicBool,
}

/// The log of a running execution. It reports a released unknown outcome in every case, also when
/// the work panics or its client has disconnected.
pub(crate) struct ExecutionLog<'a> {
    route: &'a Arc<LiveRoute>,
    id: RecordId,
    /// `None` if it is executed without protection.
    fence: Option<Fence>,
    progress: Progress,
}

/// Whether the work has begun.
enum Progress {
    /// The service has not been called.
    Waiting,
    Begun,
    /// The service logs the start itself.
    Asked(ExecutionStart),
}

// === impl ExecutionStart ===

impl ExecutionStart {
    /// The work begins now: for a proxy, when there is a connection and nothing has been sent on it. Writes the line
    /// that a process leaves behind if it is killed before the work ends. Further calls do nothing.
    pub fn log(&self) {
        let Start { route, id, fence, is_logged } = &*self.0;
        if !is_logged.swap(true, Ordering::AcqRel) {
            log_start(route, *id, *fence);
        }
    }

    fn is_logged(&self) -> bool {
        self.0.is_logged.load(Ordering::Acquire)
    }
}

fn log_start(route: &LiveRoute, id: RecordId, fence: Fence) {
    // Nothing is formatted that is not written.
    if tracing::enabled!(tracing::Level::INFO) {
        let (route, record, fence) = (route.name(), id.prefix(), fence.get());
        tracing::info!(route, record, fence, "execution started");
    }
}

// === impl ExecutionLog ===

impl<'a> ExecutionLog<'a> {
    pub(crate) const fn new(route: &'a Arc<LiveRoute>, id: RecordId, fence: Option<Fence>) -> Self {
        Self { route, id, fence, progress: Progress::Waiting }
    }

    /// Logs that the work starts: the line that a killed process leaves behind.
    pub(crate) fn begin(&mut self) {
        self.progress = Progress::Begun;
        if let Some(fence) = self.fence {
            log_start(self.route, self.id, fence);
        }
    }

    /// Lets the service log the start. Without protection there is no start line.
    pub(crate) fn begin_on_signal(&mut self) -> Option<ExecutionStart> {
        let Some(fence) = self.fence else {
            self.begin();
            return None;
        };
        let (route, id, is_logged) = (self.route.clone(), self.id, AtomicBool::new(false));
        let start = ExecutionStart(Arc::new(Start { route, id, fence, is_logged }));
        self.progress = Progress::Asked(start.clone());
        Some(start)
    }

    /// False if the work surely has not begun.
    pub(crate) fn is_begun(&self) -> bool {
        match &self.progress {
            Progress::Waiting => false,
            Progress::Begun => true,
            Progress::Asked(start) => start.is_logged(),
        }
    }

    /// Ends the execution.
    pub(crate) fn end(&self, outcome: &Outcome) {
        // A service that never logged its start counts as begun, unless it failed for now.
        if let (Progress::Asked(start), false) =
            (&self.progress, matches!(outcome, Outcome::FailedForNow(_)))
        {
            start.log();
        }
        if matches!(outcome, Outcome::Unknown(_)) {
            self.ended_unknown();
        }
    }

    /// Logs the end of an execution whose client has disconnected: no attempt line will follow.
    pub(crate) fn log_detached_end(&self, outcome: &Outcome) {
        let outcome = match outcome {
            Outcome::Completed(_) => "completed",
            Outcome::Failed(_) => "failed",
            Outcome::FailedForNow(_) => "failed for now",
            Outcome::Unknown(_) => "unknown",
        };
        let fence = self.fence.filter(|_| tracing::enabled!(tracing::Level::INFO));
        // Without a start line there is no end line.
        if let Some(fence) = fence.filter(|_| self.is_begun()) {
            let (route, record, fence) = (self.route.name(), self.id.prefix(), fence.get());
            tracing::info!(route, record, fence, outcome, "execution ended");
        }
    }

    fn ended_unknown(&self) {
        if let (Some(fence), OnUnknown::Release) =
            (self.fence, self.route.policy().core.on_unknown())
        {
            self.route.unknown_released(self.id, fence);
        }
    }
}

impl Drop for ExecutionLog<'_> {
    fn drop(&mut self) {
        // A panic of the work counts as Unknown.
        if thread::panicking() {
            self.end(&Outcome::Unknown(Reply::default()));
        }
    }
}
