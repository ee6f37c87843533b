use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

/// Limits of the buckets of every histogram, in seconds.
const BUCKETS_S: [f64; 16] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0,
];

/// All that is counted, for Prometheus.
#[derive(Clone)]
pub struct Metrics {
    handle: PrometheusHandle,
}

/// What is not counted but looked at.
pub(crate) struct Now {
    pub(crate) executions: usize,
    pub(crate) waiters: usize,
    pub(crate) connections: usize,
}

// === impl Metrics ===

impl Metrics {
    /// Starts counting, for the whole process; once, before anything that counts is made. Counts
    /// of a second call go nowhere.
    pub fn install() -> Self {
        let builder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &BUCKETS_S);
        // The list of buckets is not empty, which is the only thing that could be wrong with it.
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

    #[expect(clippy::cast_precision_loss, reason = "nobody runs 2^52 executions at once")]
    pub(crate) fn render(&self, now: &Now) -> String {
        metrics::gauge!("semel_executions_in_flight").set(now.executions as f64);
        metrics::gauge!("semel_waiters").set(now.waiters as f64);
        metrics::gauge!("semel_connections").set(now.connections as f64);
        self.handle.render()
    }
}

fn describe() {
    use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};
    use semel_http::metric;

    semel_store::metric::describe();
    describe_counter!(metric::ATTEMPTS_TOTAL, "Requests that were decided, by route and decision");
    describe_counter!(
        metric::UNKNOWN_RELEASED_TOTAL,
        "Unknown outcomes whose key was released: a retry may execute the work again"
    );
    describe_histogram!(metric::UPSTREAM_SECONDS, Unit::Seconds, "How long executions took");
    describe_histogram!(
        metric::ADDED_SECONDS,
        Unit::Seconds,
        "How long answers took beyond their own execution"
    );
    describe_gauge!(
        "semel_executions_in_flight",
        "Attempts that are being claimed, executed or settled"
    );
    describe_gauge!("semel_waiters", "Duplicates that wait for an outcome");
    describe_gauge!("semel_connections", "Connections of clients");
}
