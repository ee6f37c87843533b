//! Latencies, medians and tables.

use std::time::Duration;

/// How often and how long.
#[derive(clap::Args, Clone, Copy)]
pub(crate) struct Schedule {
    /// Rounds of each subject; medians are printed.
    #[arg(long, default_value_t = 3)]
    pub(crate) rounds: usize,
    /// Turns of each subject in a round.
    #[arg(long, default_value_t = 4)]
    pub(crate) turns: u32,
    /// Seconds per turn.
    #[arg(long, default_value_t = 2)]
    pub(crate) seconds: u64,
}

/// What one round of one subject gave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    pub(crate) per_second: f64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    pub(crate) p999: Duration,
    pub(crate) max: Duration,
    /// Processor time per operation, of this whole process: steadier than anything timed.
    pub(crate) cpu: Duration,
}

// === impl Round ===

impl Round {
    pub(crate) fn new(elapsed: Duration, cpu: Duration, mut latencies: Vec<Duration>) -> Self {
        latencies.sort_unstable();
        let at = |share: f64| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a share of a length is a valid index"
            )]
            let index = (latencies.len().saturating_sub(1) as f64 * share) as usize;
            latencies.get(index).copied().unwrap_or_default()
        };
        Self {
            per_second: latencies.len() as f64 / elapsed.as_secs_f64(),
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: at(1.0),
            cpu: cpu.div_f64(latencies.len().max(1) as f64),
        }
    }

    pub(crate) fn describe(&self) -> String {
        format!(
            "{:>8.0}/s   p50 {:>7} p99 {:>7} p99.9 {:>7} max {:>7} cpu {:>4.1}us",
            self.per_second,
            millis(self.p50),
            millis(self.p99),
            millis(self.p999),
            millis(self.max),
            self.cpu.as_secs_f64() * 1e6
        )
    }
}

/// Processor time of this process so far.
pub(crate) fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

pub(crate) fn millis(duration: Duration) -> String {
    format!("{:.2}ms", duration.as_secs_f64() * 1_000.0)
}

/// The middle one, or the mean of the two in the middle.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    f64::midpoint(at(values.len().saturating_sub(1) / 2), at(values.len() / 2))
}

/// The value that this share of all lie below, between neighbours in proportion.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let place = values.len().saturating_sub(1) as f64 * share;
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a length is a valid index"
    )]
    let (below, above) = (at(place.floor() as usize), at(place.ceil() as usize));
    below + (above - below) * place.fract()
}

pub(crate) fn median_rate(rounds: &[Round]) -> f64 {
    median(rounds.iter().map(|round| round.per_second))
}

pub(crate) fn median_p99(rounds: &[Round]) -> f64 {
    median(rounds.iter().map(|round| round.p99.as_secs_f64() * 1_000.0))
}

/// One line of the result: what, how much, and what was asked for.
pub(crate) struct Line {
    pub(crate) what: String,
    pub(crate) value: String,
    pub(crate) asked: String,
    pub(crate) reached: bool,
}

pub(crate) fn print_table(lines: &[Line]) {
    println!("\n| what | measured | asked | |\n|---|---|---|---|");
    for line in lines {
        let mark = if line.reached { "reached" } else { "MISSED" };
        println!("| {} | {} | {} | {mark} |", line.what, line.value, line.asked);
    }
}
