use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use crate::limit::Limit;

/// Limits of the buckets of every histogram, in seconds.
const BUCKETS_S: [f64; 16] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0,
];

/// All metrics of the process, for Prometheus.
#[derive(Clone)]
pub struct Metrics {
    handle: PrometheusHandle,
}

/// The values of the gauges, read when they are rendered.
pub(crate) struct Gauges {
    pub(crate) executions: usize,
    pub(crate) waiters: usize,
    pub(crate) connections: usize,
    pub(crate) upstream_connections: usize,
    pub(crate) upstream_waiters: usize,
}

// === impl Metrics ===

impl Metrics {
    /// Installs the recorder of the process. To be called once, before any metric is created: a second recorder
    /// receives nothing.
    pub fn install() -> Self {
        let builder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &BUCKETS_S);
        // Only an empty list of buckets is an error.
        let recorder = builder.unwrap_or_else(|_| PrometheusBuilder::new()).build_recorder();
        let handle = recorder.handle();
        if metrics::set_global_recorder(recorder).is_err() {
            tracing::debug!("metrics were installed before");
        }
        describe();
        Self { handle }
    }

    /// Empties the buffers of the histograms; they grow without end otherwise.
    pub async fn upkeep(self) {
        let mut tick = tokio::time::interval(Duration::from_secs(5));
        loop {
            tick.tick().await;
            self.handle.run_upkeep();
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "there are never 2^52 executions at once")]
    pub(crate) fn render(&self, gauges: &Gauges) -> String {
        metrics::gauge!("semel_executions_in_flight").set(gauges.executions as f64);
        metrics::gauge!("semel_waiters").set(gauges.waiters as f64);
        metrics::gauge!("semel_connections").set(gauges.connections as f64);
        metrics::gauge!("semel_upstream_connections").set(gauges.upstream_connections as f64);
        metrics::gauge!("semel_upstream_waiters").set(gauges.upstream_waiters as f64);
        self.handle.render()
    }
}

fn describe() {
    use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
    use semel_http::metric;

    semel_store::metric::describe();
    describe_counter!(metric::ATTEMPTS_TOTAL, "Decided requests, by route and decision");
    describe_counter!(
        metric::UNKNOWN_RELEASED_TOTAL,
        "Unknown outcomes whose key was released, so that a retry may execute again"
    );
    describe_counter!(metric::TOKENS_REFUSED_TOTAL, "Rejected tokens, by reason");
    describe_counter!(crate::tokens::REFRESHES_TOTAL, "Refreshes of the token keys, by outcome");
    describe_histogram!(
        metric::UPSTREAM_SECONDS,
        Unit::Seconds,
        "Duration of executions by the upstream"
    );
    describe_histogram!(
        metric::ADDED_SECONDS,
        Unit::Seconds,
        "Latency that the gateway added to the execution"
    );
    describe_gauge!(
        "semel_executions_in_flight",
        "Attempts in flight: being claimed, executed or settled"
    );
    describe_gauge!("semel_waiters", "Duplicates waiting for the outcome of an execution");
    describe_gauge!("semel_connections", "Open connections of clients");
    describe_gauge!(
        "semel_upstream_connections",
        "Open connections to the upstream, including idle ones"
    );
    describe_gauge!("semel_upstream_waiters", "Requests waiting for a connection to the upstream");
    Limit::describe();
}
