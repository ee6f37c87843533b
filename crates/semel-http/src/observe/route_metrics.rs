use std::time::Duration;

use metrics::{Counter, Histogram, counter, histogram};

use super::{Decided, RouteObserver, metric};
use crate::routes::Route;
use crate::token::TokenRefused;

/// Reports to the recorder of the [`metrics`](https://docs.rs/metrics) crate, under the names in [`metric`].
#[derive(Debug)]
pub struct RouteMetrics {
    /// By decision.
    attempts: Vec<Counter>,
    unknown_released: Counter,
    upstream: Histogram,
    added: Histogram,
}

// === impl RouteMetrics ===

impl RouteMetrics {
    /// Looks up the instruments of a route. The recorder must have been installed before.
    pub fn new(route: &Route) -> Self {
        let (name, mode) = (|| route.name().to_owned(), route.policy().mode.as_str());
        let attempts = |decided: &Decided| {
            let decision = decided.as_str();
            counter!(metric::ATTEMPTS_TOTAL, "route" => name(), "mode" => mode, "decision" => decision)
        };
        Self {
            attempts: Decided::ALL.iter().map(attempts).collect(),
            unknown_released: counter!(metric::UNKNOWN_RELEASED_TOTAL, "route" => name()),
            upstream: histogram!(metric::UPSTREAM_SECONDS, "route" => name()),
            added: histogram!(metric::ADDED_SECONDS, "route" => name()),
        }
    }
}

impl RouteObserver for RouteMetrics {
    fn decided(&self, decided: Decided) {
        self.attempts[decided as usize].increment(1);
    }

    fn timed(&self, execution: Option<Duration>, added: Duration) {
        if let Some(execution) = execution {
            self.upstream.record(execution.as_secs_f64());
        }
        self.added.record(added.as_secs_f64());
    }

    fn unknown_released(&self) {
        self.unknown_released.increment(1);
    }

    fn token_refused(&self, reason: &TokenRefused) {
        counter!(metric::TOKENS_REFUSED_TOTAL, "reason" => reason.as_str()).increment(1);
    }
}
