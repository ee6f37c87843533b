use std::collections::HashMap;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    set_default_local_recorder,
};
use semel_http::{RoutePolicyBuilder, Routes, metric};

/// Counts attempts by their decision, and keeps how long they took.
#[derive(Clone, Default)]
pub(crate) struct Counts {
    attempts: Arc<Mutex<HashMap<String, Arc<AtomicU64>>>>,
    unknown_released: Arc<AtomicU64>,
    times: Arc<Mutex<HashMap<String, Arc<Times>>>>,
}

#[derive(Default)]
struct Times(Mutex<Vec<f64>>);

impl Counts {
    /// One policy for all requests. The layers that this thread makes after that are counted here.
    pub(crate) fn routes(&self, policy: RoutePolicyBuilder) -> Routes {
        let recorder = Box::leak(Box::new(self.clone()));
        mem::forget(set_default_local_recorder(recorder));
        Routes::new(policy.build().unwrap())
    }

    pub(crate) fn of(&self, decision: &str) -> u64 {
        self.attempts.lock().unwrap()[decision].load(Ordering::SeqCst)
    }

    /// How many unknown outcomes were released.
    pub(crate) fn unknown_released(&self) -> u64 {
        self.unknown_released.load(Ordering::SeqCst)
    }

    /// Every decision that was counted, with its number.
    pub(crate) fn all(&self) -> Vec<(String, u64)> {
        let counts = self.attempts.lock().unwrap();
        let count = |(name, count): (&String, &Arc<AtomicU64>)| {
            (name.clone(), count.load(Ordering::SeqCst))
        };
        let mut all: Vec<_> = counts.iter().map(count).filter(|(_, count)| *count > 0).collect();
        all.sort();
        all
    }

    /// All that was recorded under the name of a histogram, in seconds.
    pub(crate) fn seconds(&self, name: &str) -> Vec<f64> {
        self.times.lock().unwrap()[name].0.lock().unwrap().clone()
    }
}

impl Recorder for Counts {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        if key.name() == metric::UNKNOWN_RELEASED_TOTAL {
            return Counter::from_arc(self.unknown_released.clone());
        }
        if key.name() != metric::ATTEMPTS_TOTAL {
            return Counter::noop();
        }
        let decision = key.labels().find(|label| label.key() == "decision").unwrap();
        let mut counts = self.attempts.lock().unwrap();
        Counter::from_arc(counts.entry(decision.value().to_owned()).or_default().clone())
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        let mut times = self.times.lock().unwrap();
        Histogram::from_arc(times.entry(key.name().to_owned()).or_default().clone())
    }
}

impl HistogramFn for Times {
    fn record(&self, seconds: f64) {
        self.0.lock().unwrap().push(seconds);
    }
}
