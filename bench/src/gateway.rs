//! The gateway against nginx as a plain reverse proxy.

mod added;
mod against;
mod cases;
pub(crate) mod memory;

use std::path::PathBuf;

use crate::figures::print_table;
use crate::http::rounds::Stage;
use crate::http::tools::Tools;
use crate::http::{procfs, stop};

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The disk to measure: a directory for scratch files.
    #[arg(long, default_value = ".")]
    directory: PathBuf,
    /// Rounds of each case; medians are printed.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    rounds: u8,
    /// How long a round takes.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Rounds of one second: for a look, not for figures.
    #[arg(long, conflicts_with = "seconds")]
    quick: bool,
    /// The gateway to measure [default: built from these sources]
    #[arg(long, value_name = "PROGRAM")]
    semel: Option<PathBuf>,
    /// Another gateway, of the commit before, say: every case with both in turns, and the ratios
    #[arg(long, value_name = "PROGRAM")]
    against: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    stop::listen()?;
    memory::raise_limit()?;
    let tools = Tools::find(arguments.semel.as_deref(), &[])?;
    // Before the stage, so that it is removed after the last process has ended.
    let directory = arguments.directory.canonicalize()?;
    let scratch = tempfile::Builder::new().prefix("semel-bench-").tempdir_in(directory)?;
    let rounds = usize::from(arguments.rounds);
    let seconds = if arguments.quick { 1 } else { arguments.seconds };
    introduce(&tools, rounds, seconds);
    if let Some(other) = &arguments.against {
        return against::compare(&tools, other, scratch.path(), rounds, seconds);
    }

    let mut stage = Stage::start(&cases::CASES, &tools, scratch.path())?;
    let samples = stage.measure(&cases::CASES, rounds, seconds)?;
    let mut lines = added::measure(&mut stage, scratch.path(), rounds, seconds)?;
    lines.push(memory::measure(&stage, &tools, scratch.path())?);
    cases::print(&samples, rounds);
    print_table(&lines);
    println!("\nload average at the end (this run included): {}", procfs::load_average());
    Ok(())
}

fn introduce(tools: &Tools, rounds: usize, seconds: u64) {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("{}", tools.versions());
    println!("{rounds} rounds of {seconds} s, {cores} cores, wrk -t1 -c64");
    println!("gateways log as by default: level info, to a file; nginx has its access log off");
    println!("load average at the start: {}", procfs::load_average());
}
