use std::time::Duration;

use metrics::gauge;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use crate::metric;

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
    /// Installs the recorder of the process, which a [`Gateway`](crate::Gateway) needs to start. To be called once: a
    /// second recorder receives nothing.
    pub fn install() -> Self {
        let builder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &BUCKETS_S);
        // Only an empty list of buckets is an error.
        let recorder = builder.unwrap_or_else(|_| PrometheusBuilder::new()).build_recorder();
        let handle = recorder.handle();
        if metrics::set_global_recorder(recorder).is_err() {
            tracing::debug!("metrics were installed before");
        }
        semel_store::metric::describe();
        semel_http::metric::describe();
        metric::describe();
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
        gauge!(metric::EXECUTIONS_IN_FLIGHT).set(gauges.executions as f64);
        gauge!(metric::WAITERS).set(gauges.waiters as f64);
        gauge!(metric::CONNECTIONS).set(gauges.connections as f64);
        gauge!(metric::UPSTREAM_CONNECTIONS).set(gauges.upstream_connections as f64);
        gauge!(metric::UPSTREAM_WAITERS).set(gauges.upstream_waiters as f64);
        self.handle.render()
    }
}
