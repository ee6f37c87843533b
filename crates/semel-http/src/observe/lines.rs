//! Throttled log lines of one route: at most one line per second for each kind.

use semel_log::{LEFT_OUT, Throttle};
use tracing::Level;

use super::Decided;
use crate::policy::Mode;

/// The kinds of lines of one route.
#[derive(Debug)]
pub(crate) struct RouteLines {
    /// By decision.
    attempts: Vec<Throttle>,
    /// Unknown outcomes whose key was released.
    pub(crate) unknown_released: Throttle,
    /// Attempts that failed in a handler's own database.
    pub(crate) failed: Throttle,
    /// Records whose reply cannot be read.
    pub(crate) unreadable: Throttle,
}

// === impl RouteLines ===

impl RouteLines {
    pub(crate) fn new(route: &str, mode: Mode) -> Self {
        let attempts = |decided: &Decided| attempts(*decided, route.to_owned(), mode);
        Self {
            attempts: Decided::ALL.iter().map(attempts).collect(),
            unknown_released: Throttle::of("unknown outcome released", Level::WARN),
            failed: Throttle::of("refused", Level::WARN),
            unreadable: Throttle::of("unreadable reply", Level::ERROR),
        }
    }

    /// Writes the line of a decision, unless the throttle suppresses it.
    pub(super) fn of(&self, decided: Decided, write: impl FnOnce(Option<u64>)) {
        self.attempts[decided as usize].line(write);
    }
}

fn attempts(decided: Decided, route: String, mode: Mode) -> Throttle {
    let (decision, mode) = (decided.as_str(), mode.as_str());
    if decided.is_alarming() {
        Throttle::new(Level::WARN, move |left_out| {
            tracing::warn!(of = "attempt", route, decision, mode, left_out, "{LEFT_OUT}");
        })
    } else {
        Throttle::new(Level::INFO, move |left_out| {
            tracing::info!(of = "attempt", route, decision, mode, left_out, "{LEFT_OUT}");
        })
    }
}
