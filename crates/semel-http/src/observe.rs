//! What is counted and logged: one decision for each request that is not simply passed on.

mod underway;

pub(crate) use underway::Underway;

use std::time::Duration;

use metrics::{Counter, Histogram};
use semel_core::RecordId;

use crate::policy::Mode;
use crate::routes::Route;

/// The names of the metrics of this crate.
pub mod metric {
    /// Counter, by `route`, `mode` and `decision`: requests that were decided.
    pub const ATTEMPTS_TOTAL: &str = "semel_attempts_total";
    /// Counter, by `route`: unknown outcomes whose key was released, so that a retry may execute the
    /// work again.
    pub const UNKNOWN_RELEASED_TOTAL: &str = "semel_unknown_released_total";
    /// Histogram, by `route`: how long executions took, from the start of the work to its reply.
    pub const UPSTREAM_SECONDS: &str = "semel_upstream_seconds";
    /// Histogram, by `route`: how long an answer took beyond its own execution.
    pub const ADDED_SECONDS: &str = "semel_added_seconds";
}

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decided {
    /// It was executed, and its outcome is kept.
    Executed,
    /// It was executed, and the store was lost before its outcome was kept.
    NotStored,
    /// It was executed, and may be again.
    Released,
    /// It was answered from the record.
    Replayed,
    /// Another attempt is executing.
    InFlight,
    /// The key belongs to another request.
    Mismatch,
    /// Nobody knows whether the work happened.
    Unknown,
    /// It was executed without protection.
    Bypassed,
    /// The service failed without a response.
    Failed,
    KeyMissing,
    KeyInvalid,
    ScopeMissing,
    BodyTooLarge,
    BodyBroken,
    StoreUnavailable,
    /// Too much is running, or the process goes down.
    Refused,
    /// Shadow mode: the first of its key.
    First,
    /// Shadow mode: it would have been replayed or refused as in flight.
    Duplicate,
    /// Shadow mode: it could not be looked at.
    Unchecked,
}

/// The counters of one route, looked up once.
#[derive(Clone)]
pub(crate) struct RouteMetrics {
    attempts: Vec<Counter>,
    unknown_released: Counter,
    upstream: Histogram,
    added: Histogram,
}

// === impl Decided ===

impl Decided {
    const ALL: [Self; 19] = [
        Self::Executed,
        Self::NotStored,
        Self::Released,
        Self::Replayed,
        Self::InFlight,
        Self::Mismatch,
        Self::Unknown,
        Self::Bypassed,
        Self::Failed,
        Self::KeyMissing,
        Self::KeyInvalid,
        Self::ScopeMissing,
        Self::BodyTooLarge,
        Self::BodyBroken,
        Self::StoreUnavailable,
        Self::Refused,
        Self::First,
        Self::Duplicate,
        Self::Unchecked,
    ];

    const fn word(self) -> &'static str {
        match self {
            Self::Executed => "executed",
            Self::NotStored => "not_stored",
            Self::Released => "released",
            Self::Replayed => "replayed",
            Self::InFlight => "in_flight",
            Self::Mismatch => "mismatch",
            Self::Unknown => "unknown",
            Self::Bypassed => "bypassed",
            Self::Failed => "failed",
            Self::KeyMissing => "key_missing",
            Self::KeyInvalid => "key_invalid",
            Self::ScopeMissing => "scope_missing",
            Self::BodyTooLarge => "body_too_large",
            Self::BodyBroken => "body_broken",
            Self::StoreUnavailable => "store_unavailable",
            Self::Refused => "refused",
            Self::First => "first",
            Self::Duplicate => "duplicate",
            Self::Unchecked => "unchecked",
        }
    }

    /// Should somebody look at it?
    const fn is_alarming(self) -> bool {
        matches!(self, Self::NotStored | Self::Bypassed | Self::StoreUnavailable | Self::Unknown)
    }
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
        self.metrics.attempts[decided as usize].increment(1);
        let (route, mode, decision) = (self.name(), self.policy().mode.as_str(), decided.word());
        // Only a prefix of the id: never the key, the body or a credential (trap 24).
        if decided.is_alarming() {
            let record = id.map(|id| id.prefix()).unwrap_or_default();
            tracing::warn!(route, record, decision, mode, status, "attempt");
        } else if tracing::enabled!(tracing::Level::INFO) {
            let record = id.map(|id| id.prefix()).unwrap_or_default();
            tracing::info!(route, record, decision, mode, status, "attempt");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_decision_has_its_place() {
        for (at, decided) in Decided::ALL.into_iter().enumerate() {
            assert_eq!(decided as usize, at, "{decided:?}");
        }
    }
}
