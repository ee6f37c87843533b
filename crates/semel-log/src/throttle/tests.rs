use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use semel_store::scripted::Logs;
use tokio::time::{advance, sleep};

use super::*;

/// What was written of one kind.
#[derive(Default)]
struct Written {
    lines: AtomicU64,
    /// Written on a line, or by itself.
    left_out: AtomicU64,
    rests: AtomicUsize,
}

impl Written {
    fn throttle() -> (Arc<Self>, Throttle) {
        // Something must listen, or nothing is counted.
        Logs::install();
        let written = Arc::new(Self::default());
        let rest = written.clone();
        let throttle = Throttle::new(Level::WARN, move |left_out| {
            rest.rests.fetch_add(1, Ordering::SeqCst);
            rest.left_out.fetch_add(left_out, Ordering::SeqCst);
        });
        (written, throttle)
    }

    fn note(&self, left_out: Option<u64>) {
        assert_ne!(left_out, Some(0), "a number without a meaning");
        self.lines.fetch_add(1, Ordering::SeqCst);
        self.left_out.fetch_add(left_out.unwrap_or_default(), Ordering::SeqCst);
    }

    /// Lines, numbers that were written by themselves, and the sum of all of them.
    fn counts(&self) -> (u64, usize, u64) {
        let lines = self.lines.load(Ordering::SeqCst);
        let sum = lines + self.left_out.load(Ordering::SeqCst);
        (lines, self.rests.load(Ordering::SeqCst), sum)
    }
}

fn storm(throttle: &Throttle, written: &Written, lines: u64) {
    for _ in 0..lines {
        throttle.line(|left_out| written.note(left_out));
    }
}

#[tokio::test(start_paused = true)]
async fn lines_that_are_a_second_apart_are_all_written() {
    let (written, throttle) = Written::throttle();
    for _ in 0..5 {
        storm(&throttle, &written, 1);
        advance(PERIOD).await;
    }
    assert_eq!(written.counts(), (5, 0, 5));
}

#[tokio::test(start_paused = true)]
async fn the_first_line_is_written_at_once_and_the_rest_as_a_number() {
    let (written, throttle) = Written::throttle();
    storm(&throttle, &written, 1_000);
    assert_eq!(written.counts(), (1, 0, 1));
    sleep(PERIOD + GRACE * 2).await;
    assert_eq!(written.counts(), (1, 1, 1_000), "the last number is not lost");
    sleep(PERIOD * 10).await;
    assert_eq!(written.counts(), (1, 1, 1_000), "and is written once");
}

#[tokio::test(start_paused = true)]
async fn a_storm_has_one_line_per_second_and_its_numbers_add_up() {
    let (written, throttle) = Written::throttle();
    let (tick, ticks) = (Duration::from_millis(10), 1_000_u64);
    for _ in 0..ticks {
        storm(&throttle, &written, 7);
        sleep(tick).await;
    }
    let (lines, rests, _) = written.counts();
    assert!((9..=10).contains(&lines), "{lines} lines in ten seconds");
    assert_eq!(rests, 0, "a line of the storm carries the number");
    sleep(PERIOD * 2).await;
    assert_eq!(written.counts(), (lines, 1, 7 * ticks));
}

/// Requests that come in bursts: never two lines in one second, from any thread.
#[tokio::test(start_paused = true)]
async fn a_number_by_itself_counts_as_the_line_of_its_second() {
    let (written, throttle) = Written::throttle();
    storm(&throttle, &written, 2);
    sleep(PERIOD + GRACE * 2).await;
    assert_eq!(written.counts(), (1, 1, 2));
    storm(&throttle, &written, 3);
    assert_eq!(written.counts(), (1, 1, 2), "the number was the line of this second");
    sleep(PERIOD * 2).await;
    assert_eq!(written.counts(), (1, 2, 5));
}

#[tokio::test(start_paused = true)]
async fn the_number_is_written_when_the_kind_is_dropped_or_its_runtime_ends() {
    let (written, throttle) = Written::throttle();
    let (kept, storms) = (throttle.clone(), written.clone());
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(async { storm(&kept, &storms, 10) });
    });
    thread.join().expect("a storm");
    assert_eq!(written.counts(), (1, 1, 10), "its runtime has ended");
    storm(&throttle, &written, 5);
    sleep(PERIOD * 3).await;
    assert_eq!(written.counts().2, 15, "it is watched again");

    // Without a runtime.
    let (written, throttle) = Written::throttle();
    let storms = written.clone();
    let thread = std::thread::spawn(move || {
        storm(&throttle, &storms, 10);
        assert_eq!(storms.counts(), (1, 0, 1));
    });
    thread.join().expect("a storm");
    assert_eq!(written.counts(), (1, 1, 10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn numbers_of_many_threads_add_up() {
    let (written, throttle) = Written::throttle();
    let storms = (0..8).map(|_| {
        let (written, throttle) = (written.clone(), throttle.clone());
        tokio::spawn(async move { storm(&throttle, &written, 10_000) })
    });
    for storm in storms.collect::<Vec<_>>() {
        storm.await.expect("a storm");
    }
    drop(throttle);
    while written.counts().2 < 80_000 {
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(written.counts().2, 80_000);
}

/// What is written where a subscriber listens.
#[tokio::test(start_paused = true)]
async fn the_lines_of_a_storm_are_few() {
    let logs = Logs::of_this_thread();
    let throttle = Throttle::of("refused", Level::WARN);
    for number in 0..100 {
        throttle.line(|left_out| tracing::warn!(number, left_out, "refused"));
    }
    sleep(PERIOD * 2).await;
    let said = logs.text();
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(said.contains("number=0") && !said.contains("number=1 "), "{said}");
    assert!(said.contains("of=\"refused\" left_out=99"), "{said}");
}
