//! Simulates seeds, as many as you like.

use std::io::{IsTerminal as _, stderr};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Parser;
use semel_simulator::{Campaign, Options, simulate};
use tokio::time::Instant;

/// Simulates nodes, a store and a faulty network, and checks the invariants in every run.
#[derive(Parser)]
#[command(name = "semel-simulator")]
struct Arguments {
    /// How many seeds to run.
    #[arg(long, default_value_t = 50_000)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 1)]
    first: u64,
    /// On how many threads; each seed is run by one of them, and takes the same course in any case.
    #[arg(long, default_value_t = 2)]
    threads: u64,
    /// Run this seed alone.
    #[arg(long, conflicts_with_all = ["seeds", "first", "threads"])]
    seed: Option<u64>,
    /// Print what happens in it, line by line.
    #[arg(long, requires = "seed")]
    trace: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let is_kept = match arguments.seed {
        Some(seed) => one(seed, arguments.trace),
        None => many(&arguments),
    };
    if is_kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs one seed. The trace is data and goes to standard output.
fn one(seed: u64, is_traced: bool) -> bool {
    let options = Options { is_traced, ..Options::default() };
    let run = simulate(seed, options);
    if let Some(trace) = &run.trace {
        print!("{trace}");
    } else {
        println!("{}", run.statistics);
    }
    if let Some(violation) = &run.violation {
        eprintln!("semel-simulator: seed {seed}: {violation}");
    }
    run.violation.is_none()
}

fn many(arguments: &Arguments) -> bool {
    let options = Options::default();
    let campaign = Campaign {
        first: arguments.first,
        seeds: arguments.seeds,
        threads: arguments.threads,
        options,
    };
    let done = AtomicU64::new(0);
    let began = Instant::now();
    let report = std::thread::scope(|scope| {
        let running = scope.spawn(|| campaign.run(&done));
        while !running.is_finished() {
            std::thread::sleep(Duration::from_millis(100));
            if stderr().is_terminal() {
                show_progress(done.load(Ordering::Relaxed), arguments.seeds, began);
            }
        }
        running.join().expect("runs do not panic")
    });
    show_progress(report.statistics.seeds, arguments.seeds, began);
    eprintln!();
    println!("{}", report.statistics);
    let failure = report.broken.and_then(|run| run.failure_report(options));
    if let Some(failure) = &failure {
        eprintln!("semel-simulator: {failure}");
    }
    failure.is_none()
}

fn show_progress(done: u64, seeds: u64, began: Instant) {
    let per_second = done * 1_000 / u64::try_from(began.elapsed().as_millis()).unwrap_or(1).max(1);
    eprint!("\r{done} of {seeds} seeds, {per_second} a second ");
}
