//! The names of the metrics of this crate.

use metrics::{Unit, describe_counter, describe_histogram};

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

/// Registers the descriptions of the metrics with the installed recorder. Call once, after installing it.
pub fn describe() {
    describe_counter!(ATTEMPTS_TOTAL, "Decided requests, by route and decision");
    describe_counter!(
        UNKNOWN_RELEASED_TOTAL,
        "Unknown outcomes whose key was released, so that a retry may execute again"
    );
    describe_counter!(TOKENS_REFUSED_TOTAL, "Rejected tokens, by reason");
    describe_histogram!(UPSTREAM_SECONDS, Unit::Seconds, "Duration of executions by the upstream");
    describe_histogram!(
        ADDED_SECONDS,
        Unit::Seconds,
        "Latency that the gateway added to the execution"
    );
}
