//! An execution from its start to its end, as the log and the metrics have it.

use std::thread;

use semel_core::{Fence, OnUnknown, Outcome, RecordId};

use crate::routes::Route;

/// An execution that is under way. It tells of an unknown outcome that is released wherever that
/// happens: also if the work panics, and if its client has left.
pub(crate) struct Underway<'a> {
    route: &'a Route,
    id: RecordId,
    /// `None` if it is executed without protection.
    fence: Option<Fence>,
}

// === impl Underway ===

impl<'a> Underway<'a> {
    /// The work is about to start: what a process that is killed leaves behind of it is this line.
    pub(crate) fn begin(route: &'a Route, id: RecordId, fence: Option<Fence>) -> Self {
        let underway = Self { route, id, fence };
        if let Some((route, record, fence)) = underway.fields() {
            tracing::info!(route, record, fence, "execution started");
        }
        underway
    }

    /// The work has ended.
    pub(crate) fn end(&self, outcome: &Outcome) {
        if matches!(outcome, Outcome::Unknown(_)) {
            self.ended_unknown();
        }
    }

    /// Its client has left, so that no answer tells of its end.
    pub(crate) fn unheard(&self, outcome: &Outcome) {
        let outcome = match outcome {
            Outcome::Completed(_) => "completed",
            Outcome::Failed(_) => "failed",
            Outcome::FailedForNow(_) => "failed for now",
            Outcome::Unknown(_) => "unknown",
        };
        if let Some((route, record, fence)) = self.fields() {
            tracing::info!(route, record, fence, outcome, "execution ended");
        }
    }

    /// Of its events: route, record and fence. Nothing is formatted that is not written.
    fn fields(&self) -> Option<(&str, String, u64)> {
        let fence = self.fence.filter(|_| tracing::enabled!(tracing::Level::INFO))?;
        Some((self.route.name(), self.id.prefix(), fence.get()))
    }

    fn ended_unknown(&self) {
        if let (Some(fence), OnUnknown::Release) =
            (self.fence, self.route.policy().core.on_unknown())
        {
            self.route.released_unknown(self.id, fence);
        }
    }
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        // A panic of the work counts as Unknown.
        if thread::panicking() {
            self.ended_unknown();
        }
    }
}

// === impl Route ===

impl Route {
    /// Counts and logs an unknown outcome whose key is released: the work may take effect twice.
    fn released_unknown(&self, id: RecordId, fence: Fence) {
        self.metrics.unknown_released.increment(1);
        let (route, record, fence) = (self.name(), id.prefix(), fence.get());
        tracing::warn!(
            route,
            record,
            fence,
            "the outcome is unknown and the key is released: a retry may execute the work again"
        );
    }
}
