use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::{Options, Run, Statistics, simulate};

/// How many lines of a trace are shown.
const TAIL: usize = 60;

/// Many seeds, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    /// The first seed.
    pub first: u64,
    /// How many.
    pub seeds: u64,
    /// The number of threads. Each seed is run by one; the number does not change a run.
    pub threads: u64,
    /// How each is run.
    pub options: Options,
}

/// The result of a campaign.
#[derive(Debug)]
pub struct Report {
    /// All runs together.
    pub statistics: Statistics,
    /// The first run that broke a rule, if any did. The campaign ends soon after.
    pub broken: Option<Run>,
}

// === impl Campaign ===

impl Campaign {
    /// Runs the seeds, counting in `done` those that are done.
    pub fn run(&self, done: &AtomicU64) -> Report {
        let stop = AtomicBool::new(false);
        let parts = std::thread::scope(|scope| {
            let part = |offset| {
                let stop = &stop;
                scope.spawn(move || self.part(offset, stop, done))
            };
            let parts: Vec<_> = (0..self.threads.max(1)).map(part).collect();
            parts
                .into_iter()
                .map(|part| part.join().expect("runs do not panic"))
                .collect::<Vec<_>>()
        });
        let mut report = Report { statistics: Statistics::default(), broken: None };
        for part in parts {
            report.statistics.add(&part.statistics);
            let runs = [report.broken.take(), part.broken].into_iter().flatten();
            report.broken = runs.min_by_key(|run| run.seed);
        }
        report
    }

    /// Every n-th seed, from an offset on.
    fn part(&self, offset: u64, stop: &AtomicBool, done: &AtomicU64) -> Report {
        let mut report = Report { statistics: Statistics::default(), broken: None };
        let mut seed = self.first + offset;
        while seed < self.first + self.seeds && !stop.load(Ordering::Relaxed) {
            let run = simulate(seed, self.options);
            report.statistics.add(&run.statistics);
            done.fetch_add(1, Ordering::Relaxed);
            if run.violation.is_some() {
                stop.store(true, Ordering::Relaxed);
                report.broken = Some(run);
                break;
            }
            seed += self.threads.max(1);
        }
        report
    }
}

// === impl Run ===

impl Run {
    /// The report of a run that broke a rule: seed, rule, key, the end of the trace, and how to repeat
    /// it. The run is repeated for the trace, which is the same.
    pub fn failure_report(&self, options: Options) -> Option<String> {
        let violation = self.violation.as_ref()?;
        let mut text = format!("seed {}: {violation}\n", self.seed);
        let traced = simulate(self.seed, Options { is_traced: true, ..options });
        let trace = traced.trace.unwrap_or_default();
        let lines: Vec<&str> = trace.lines().collect();
        let left_out = lines.len().saturating_sub(TAIL);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "the trace, without its first {left_out} lines:");
        for line in &lines[left_out..] {
            let _ = writeln!(text, "  {line}");
        }
        let seed = self.seed;
        let _ = write!(
            text,
            "repeat it with: cargo run --release -p semel-simulator -- --seed {seed} --trace"
        );
        Some(text)
    }
}
