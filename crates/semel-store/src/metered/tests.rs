use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use metrics::{Gauge, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit};

use super::*;
use crate::faulty::{Behaviour, FaultyStore, attempt, clock, completed, lease, request};

/// Remembers every series by its name and labels.
#[derive(Default)]
struct Memo {
    counters: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
    seconds: Mutex<BTreeMap<String, Arc<Seconds>>>,
}

#[derive(Default)]
struct Seconds(Mutex<Vec<f64>>);

// === impl Memo ===

impl Memo {
    /// The counters that are not zero, as `verb answer count`.
    fn counted(&self) -> Vec<String> {
        let counters = self.counters.lock().unwrap();
        let seen = counters.iter().filter_map(|(series, count)| {
            let count = count.load(Ordering::SeqCst);
            (count > 0).then(|| format!("{series} {count}"))
        });
        seen.collect()
    }

    fn seconds_of(&self, verb: &str) -> Vec<f64> {
        let series = format!("semel_store_verb_seconds{{store=test,verb={verb}}}");
        let seconds = self.seconds.lock().unwrap();
        seconds[&series].0.lock().unwrap().clone()
    }
}

fn series(key: &Key) -> String {
    let labels: Vec<String> =
        key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
    format!("{}{{{}}}", key.name(), labels.join(","))
}

impl Recorder for Memo {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let mut counters = self.counters.lock().unwrap();
        Counter::from_arc(Arc::clone(counters.entry(series(key)).or_default()))
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        let mut seconds = self.seconds.lock().unwrap();
        Histogram::from_arc(Arc::clone(seconds.entry(series(key)).or_default()))
    }
}

impl HistogramFn for Seconds {
    fn record(&self, value: f64) {
        self.0.lock().unwrap().push(value);
    }
}

fn setup() -> (Memo, Arc<FaultyStore>, Metered<Arc<FaultyStore>>) {
    let memo = Memo::default();
    let inner = FaultyStore::on(&clock());
    let metered = metrics::with_local_recorder(&memo, || Metered::new(Arc::clone(&inner), "test"));
    (memo, inner, metered)
}

#[tokio::test]
async fn every_verb_is_counted_by_its_answer() {
    let (memo, _, metered) = setup();
    let policy = Policy::default();
    let lease = lease(&metered, &attempt("k", 1), &policy).await;
    metered.claim(&attempt("k", 2), &policy).await.unwrap();
    let other = request("k", 3, "pay 999");
    metered.claim(&other, &policy).await.unwrap();
    metered.renew(&lease, Duration::from_secs(9)).await.unwrap();
    metered.release(&lease, Release::Hold).await.unwrap();
    metered.claim(&attempt("k", 4), &policy).await.unwrap();
    metered.renew(&lease, Duration::from_secs(9)).await.unwrap();
    metered.settle(&lease, completed("paid")).await.unwrap();
    metered.claim(&attempt("k", 5), &policy).await.unwrap();
    metered.release(&lease, Release::Hold).await.unwrap();
    metered.inspect(lease.id()).await.unwrap();
    metered.inspect(attempt("none", 1).id()).await.unwrap();
    metered.sweep(1).await.unwrap();
    metered.health().await.unwrap();
    let expected = [
        "claim,answer=execute",
        "claim,answer=in_flight",
        "claim,answer=mismatch",
        "claim,answer=replay",
        "claim,answer=unknown",
        "health,answer=healthy",
        "inspect,answer=absent",
        "inspect,answer=found",
        "release,answer=done",
        "release,answer=settled",
        "renew,answer=renewed",
        "renew,answer=superseded",
        "settle,answer=recorded",
        "sweep,answer=swept",
    ]
    .map(|labels| format!("semel_store_answers_total{{store=test,verb={labels}}} 1"));
    assert_eq!(memo.counted(), expected);
}

#[tokio::test]
async fn errors_are_answers_too() {
    let (memo, inner, metered) = setup();
    let moods = [
        Behaviour::Corrupt,
        Behaviour::Declined,
        Behaviour::Misconfigured,
        Behaviour::NotAsked,
        Behaviour::TimedOut,
        Behaviour::Unavailable,
    ];
    for behaviour in moods {
        inner.set_behaviour(behaviour);
        assert!(metered.health().await.is_err());
    }
    let words = ["corrupt", "declined", "misconfigured", "not_asked", "timed_out", "unavailable"];
    let expected = words.map(|answer| {
        format!("semel_store_answers_total{{store=test,verb=health,answer={answer}}} 1")
    });
    assert_eq!(memo.counted(), expected);
    assert_eq!(memo.seconds_of("health").len(), 6);
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_verb_is_measured_in_seconds() {
    let (memo, inner, metered) = setup();
    inner.set_behaviour(Behaviour::Slow(Duration::from_millis(250)));
    metered.health().await.unwrap();
    assert_eq!(memo.seconds_of("health"), [0.25]);
    assert_eq!(memo.seconds_of("claim"), [0.0; 0]);
}

/// Trap 24: keys add no series to those registered at the start.
#[tokio::test]
async fn keys_never_become_labels() {
    let (memo, _, metered) = setup();
    let registered: Vec<String> = memo.counters.lock().unwrap().keys().cloned().collect();
    metrics::with_local_recorder(&memo, || {
        for number in 0..50 {
            let (attempt, policy) = (attempt(&format!("k{number}"), 1), Policy::default());
            let claim = metered.claim(&attempt, &policy);
            let mut claim = std::pin::pin!(claim);
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(claim.as_mut().poll(&mut context).is_ready());
        }
    });
    let after: Vec<String> = memo.counters.lock().unwrap().keys().cloned().collect();
    assert_eq!(after, registered);
    assert_eq!(memo.seconds.lock().unwrap().len(), 7);
    // Five verbs with their answers, and six errors for each of the seven.
    assert_eq!(registered.len(), 5 + 3 * 4 + 2 + 1 + 1 + 7 * 6);
}
