//! Rounds: every case in turn, again and again, so that a slow minute of the machine falls on all.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::load::{BODY_BYTES, Load, Shot, Wrk};
use super::stop;
use super::subjects::{Kind, Subject};
use super::tools::Tools;
use super::upstream::Upstream;
use crate::figures::{median, millis};

/// Everything that runs while something is measured.
pub(crate) struct Stage {
    subjects: Vec<Subject>,
    upstream: Upstream,
    wrk: Wrk,
    /// Keys of two runs never meet.
    run: u64,
}

/// What is measured, and what was asked for.
pub(crate) struct Case {
    pub(crate) what: &'static str,
    pub(crate) subject: Kind,
    pub(crate) load: Load,
    /// The least part of the rate that it is held against.
    pub(crate) asked: Option<f64>,
}

/// What one round of one case gave.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) per_second: f64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    /// Processor time of the subject per request, what it still did after the last one included.
    pub(crate) cpu: Duration,
}

// === impl Stage ===

impl Stage {
    /// Starts what these cases need, and settles the keys of those that replay.
    pub(crate) fn start<'a>(
        cases: impl IntoIterator<Item = &'a Case>,
        tools: &Tools,
        scratch: &Path,
    ) -> anyhow::Result<Self> {
        let upstream = Upstream::start(scratch)?;
        let wrk = Wrk::new(tools.wrk.clone(), scratch);
        let mut stage = Self { subjects: Vec::new(), upstream, wrk, run: 0 };
        for case in cases {
            if stage.subject(case.subject).is_err() {
                let at = stage.upstream.address;
                stage.subjects.push(Subject::start(case.subject, tools, at, scratch)?);
            }
            if case.load == Load::Replay {
                stage.subject(case.subject)?.settle(BODY_BYTES)?;
            }
        }
        Ok(stage)
    }

    pub(crate) fn subject(&self, kind: Kind) -> anyhow::Result<&Subject> {
        self.subjects.iter().find(|subject| subject.kind == kind).context("no such subject")
    }

    pub(crate) fn upstream(&self) -> &Upstream {
        &self.upstream
    }

    /// All cases, `rounds` times after one short round that warms up and is not counted.
    pub(crate) fn measure(
        &mut self,
        cases: &[Case],
        rounds: usize,
        seconds: u64,
    ) -> anyhow::Result<Vec<Vec<Sample>>> {
        let mut samples = vec![Vec::new(); cases.len()];
        for round in 0..=rounds {
            println!("\n{}", heading(round, rounds));
            let mut order: Vec<usize> = (0..cases.len()).collect();
            // There and back, so that the successor of a heavy case changes.
            if round % 2 == 0 {
                order.reverse();
            }
            for index in order {
                let seconds = if round == 0 { 1 } else { seconds };
                let sample = self.round(&cases[index], 64, seconds)?;
                if round > 0 {
                    samples[index].extend(sample);
                }
            }
        }
        Ok(samples)
    }

    /// One round of one case, or nothing if it failed in any way.
    pub(crate) fn round(
        &mut self,
        case: &Case,
        connections: usize,
        seconds: u64,
    ) -> anyhow::Result<Option<Sample>> {
        stop::check()?;
        self.run += 1;
        let seed = format!("key-{}-{}", std::process::id(), self.run);
        let subject = self.subject(case.subject)?;
        let (before, arrived) = (subject.cpu_time(), subject.executions()?);
        let shot = Shot::new(case.load, subject.address, connections, seconds, &seed);
        let report = self.wrk.run(&shot)?;
        wait_until_quiet(|| self.subjects.iter().map(Subject::cpu_time).sum());
        let cpu = subject.cpu_time().saturating_sub(before);
        let arrived = subject.executions()? - arrived;
        let fault =
            report.fault.or_else(|| astray(case.load, report.requests, arrived, connections));
        if let Some(fault) = fault {
            println!("{:<44} NOT COUNTED: {fault}", case.what);
            return Ok(None);
        }
        let cpu = cpu.div_f64(report.requests.max(1) as f64);
        let (p50, p99) = (report.p50, report.p99);
        let sample = Sample { per_second: report.per_second, p50, p99, cpu };
        println!("{:<44} {}", case.what, sample.describe());
        Ok(Some(sample))
    }
}

// === impl Sample ===

impl Sample {
    pub(crate) fn describe(&self) -> String {
        let cpu = self.cpu.as_secs_f64() * 1e6;
        let (p50, p99) = (millis(self.p50), millis(self.p99));
        format!("{:>8.0}/s   p50 {p50:>7} p99 {p99:>8} cpu {cpu:>5.1}us", self.per_second)
    }

    /// The median of each figure; nothing without samples.
    pub(crate) fn median(samples: &[Self]) -> Option<Self> {
        let of = |figure: fn(&Self) -> f64| median(samples.iter().map(figure));
        (!samples.is_empty()).then(|| Self {
            per_second: of(|sample| sample.per_second),
            p50: Duration::from_secs_f64(of(|sample| sample.p50.as_secs_f64())),
            p99: Duration::from_secs_f64(of(|sample| sample.p99.as_secs_f64())),
            cpu: Duration::from_secs_f64(of(|sample| sample.cpu.as_secs_f64())),
        })
    }
}

/// What a store puts off must not fall on the next one in turn. `spent` is the processor time of all.
pub(crate) fn wait_until_quiet(spent: impl Fn() -> Duration) {
    const LONGEST: Duration = Duration::from_secs(3);
    const STEP: Duration = Duration::from_millis(100);
    let (started, mut last) = (Instant::now(), spent());
    while started.elapsed() < LONGEST {
        thread::sleep(STEP);
        let now = spent();
        if now.saturating_sub(last) < STEP / 20 {
            return;
        }
        last = now;
    }
}

pub(crate) fn heading(round: usize, rounds: usize) -> String {
    match round {
        0 => "warming up, not counted".to_owned(),
        _ => format!("round {round} of {rounds}"),
    }
}

/// Replays must not reach the upstream, and everything else must, once: requests that are cut off
/// when time is up may have come too, at most one for each connection.
pub(crate) fn astray(
    load: Load,
    requests: u64,
    arrived: u64,
    connections: usize,
) -> Option<String> {
    let fine = match load {
        // How often they arrive is what is asked.
        Load::Duplicates => true,
        Load::Replay => arrived == 0,
        Load::Get | Load::First => (requests..=requests + connections as u64).contains(&arrived),
    };
    (!fine).then(|| format!("of {requests} requests {arrived} came to the upstream"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_work_that_was_done_once_counts() {
        assert_eq!(astray(Load::First, 1_000, 1_064, 64), None);
        assert!(astray(Load::First, 1_000, 999, 64).is_some(), "some were not executed");
        assert!(astray(Load::Get, 1_000, 1_065, 64).is_some(), "some came twice");
        assert_eq!(astray(Load::Replay, 1_000, 0, 64), None);
        assert!(astray(Load::Replay, 1_000, 1, 64).is_some(), "one was executed");
    }
}
