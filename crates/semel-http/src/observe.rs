//! Metrics and log lines: one decision for each request that is not passed through.

mod decided;
mod execution_log;
mod lines;

pub(crate) use decided::Decided;
pub(crate) use execution_log::ExecutionLog;
pub use execution_log::ExecutionStart;
pub(crate) use lines::RouteLines;

use std::time::Duration;

use metrics::{Counter, Histogram};
use semel_core::RecordId;
use tracing::Level;

use crate::policy::Mode;
use crate::routes::Route;

/// The names of the metrics of this crate.
pub mod metric {
    /// Counter, by `route`, `mode` and `decision`: requests that were decided.
    pub const ATTEMPTS_TOTAL: &str = "semel_attempts_total";
    /// Counter, by `route`: unknown outcomes whose key was released, so that a retry may execute the
    /// work again.
    pub const UNKNOWN_RELEASED_TOTAL: &str = "semel_unknown_released_total";
    /// Counter, by `reason`: tokens that were not believed.
    pub const TOKENS_REFUSED_TOTAL: &str = "semel_tokens_refused_total";
    /// Histogram, by `route`: how long executions took, from the start of the work to its reply.
    pub const UPSTREAM_SECONDS: &str = "semel_upstream_seconds";
    /// Histogram, by `route`: how long an answer took beyond its own execution.
    pub const ADDED_SECONDS: &str = "semel_added_seconds";
}

/// The counters of one route, looked up once.
#[derive(Clone)]
pub(crate) struct RouteMetrics {
    attempts: Vec<Counter>,
    unknown_released: Counter,
    upstream: Histogram,
    added: Histogram,
}

// === impl RouteMetrics ===

impl RouteMetrics {
    pub(crate) fn new(route: &str, mode: Mode) -> Self {
        let counter = |decided: Decided| {
            metrics::counter!(
                metric::ATTEMPTS_TOTAL,
                "route" => route.to_owned(),
                "mode" => mode.as_str(),
                "decision" => decided.word(),
            )
        };
        Self {
            attempts: Decided::ALL.into_iter().map(counter).collect(),
            unknown_released: metrics::counter!(
                metric::UNKNOWN_RELEASED_TOTAL,
                "route" => route.to_owned(),
            ),
            upstream: metrics::histogram!(metric::UPSTREAM_SECONDS, "route" => route.to_owned()),
            added: metrics::histogram!(metric::ADDED_SECONDS, "route" => route.to_owned()),
        }
    }
}

impl std::fmt::Debug for RouteMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RouteMetrics")
    }
}

// === impl Route ===

impl Route {
    /// Counts a decision and writes its line to the log. `id` is `None` if the request did not get
    /// as far as a record.
    pub(crate) fn decided(&self, decided: Decided, id: Option<RecordId>, status: u16) {
        self.ended(decided, id, status, true);
    }

    /// The same for an attempt of which it is known whether its own work has begun.
    pub(crate) fn ended(
        &self,
        decided: Decided,
        id: Option<RecordId>,
        status: u16,
        has_begun: bool,
    ) {
        self.metrics.attempts[decided as usize].increment(1);
        let (route, mode, decision) = (self.name(), self.policy().mode.as_str(), decided.word());
        // Only a prefix of the id: never the key, the body or a credential (trap 24).
        let record = || id.map(|id| id.prefix()).unwrap_or_default();
        let write = |left_out: Option<u64>| {
            if decided.is_alarming() {
                let record = record();
                tracing::warn!(route, record, decision, mode, status, left_out, "attempt");
            } else if tracing::enabled!(Level::INFO) {
                let record = record();
                tracing::info!(route, record, decision, mode, status, left_out, "attempt");
            }
        };
        if has_begun && decided.ends_execution() {
            write(None);
        } else {
            self.lines.of(decided, write);
        }
    }

    /// Counts how long an execution and everything around it took.
    pub(crate) fn timed(&self, upstream: Option<Duration>, total: Duration) {
        if let Some(upstream) = upstream {
            self.metrics.upstream.record(upstream.as_secs_f64());
        }
        let added = total.saturating_sub(upstream.unwrap_or_default());
        self.metrics.added.record(added.as_secs_f64());
    }
}
