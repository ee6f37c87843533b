//! The names of the metrics of the gateway itself.

use metrics::{describe_counter, describe_gauge};

/// Counter, by `limit`: connections and requests that were refused or closed at a limit.
pub(crate) const LIMITS_REACHED_TOTAL: &str = "semel_limits_reached_total";
/// Counter, by `outcome`: refreshes of the token keys.
pub(crate) const TOKEN_KEY_REFRESHES_TOTAL: &str = "semel_token_key_looks_total";
/// Gauge: attempts of the engine.
pub(crate) const EXECUTIONS_IN_FLIGHT: &str = "semel_executions_in_flight";
/// Gauge: duplicates that wait.
pub(crate) const WAITERS: &str = "semel_waiters";
/// Gauge: connections of clients.
pub(crate) const CONNECTIONS: &str = "semel_connections";
/// Gauge: connections to the upstream.
pub(crate) const UPSTREAM_CONNECTIONS: &str = "semel_upstream_connections";
/// Gauge: requests that wait for one of these.
pub(crate) const UPSTREAM_WAITERS: &str = "semel_upstream_waiters";

/// Registers the descriptions of the metrics with the installed recorder.
pub(crate) fn describe() {
    describe_counter!(
        LIMITS_REACHED_TOTAL,
        "Connections and requests refused or closed at a limit, by limit"
    );
    describe_counter!(TOKEN_KEY_REFRESHES_TOTAL, "Refreshes of the token keys, by outcome");
    describe_gauge!(EXECUTIONS_IN_FLIGHT, "Attempts in flight: being claimed, executed or settled");
    describe_gauge!(WAITERS, "Duplicates waiting for the outcome of an execution");
    describe_gauge!(CONNECTIONS, "Open connections of clients");
    describe_gauge!(UPSTREAM_CONNECTIONS, "Open connections to the upstream, including idle ones");
    describe_gauge!(UPSTREAM_WAITERS, "Requests waiting for a connection to the upstream");
}
