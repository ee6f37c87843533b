//! Crashes an embedded store on purpose, as often as you like.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use semel_crash_tests::{rounds, writer};
use semel_embedded::Durability;

/// Crashes an embedded store on purpose, and checks that nothing acknowledged is lost.
#[derive(Parser)]
#[command(name = "semel-crash")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Kills a writing process (kill -9) at random moments.
    Kill {
        /// How often.
        #[arg(long, default_value_t = 1_000)]
        rounds: u32,
        /// What acknowledged writes must survive.
        #[arg(long, value_enum, default_value_t = Kind::Power)]
        durability: Kind,
        /// Where to put the store: a directory for scratch files.
        #[arg(long, default_value = ".")]
        directory: PathBuf,
    },
    /// Takes images of the device under a writing process, as a power cut leaves it. Needs root.
    PowerCut {
        /// How many.
        #[arg(long, default_value_t = 300)]
        images: u32,
        /// Where to put the images.
        #[arg(long, default_value = ".")]
        directory: PathBuf,
    },
    /// Writes until killed, and prints what was acknowledged; started by the others.
    #[command(hide = true)]
    Writer {
        /// The store.
        path: PathBuf,
        /// The number of this run.
        #[arg(long)]
        run: u32,
        /// What acknowledged writes must survive.
        #[arg(long, value_enum)]
        durability: Kind,
        /// How many records to write.
        #[arg(long, default_value_t = u32::MAX)]
        limit: u32,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    Power,
    Process,
}

impl From<Kind> for Durability {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Power => Self::Power,
            Kind::Process => Self::Process,
        }
    }
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("semel-crash: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    let program = std::env::current_exe()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match command {
        Command::Writer { path, run, durability, limit } => {
            writer::run(&path, durability.into(), run, limit)
        }
        Command::Kill { rounds, durability, directory } => {
            let scratch = tempfile::Builder::new().prefix("semel-crash-").tempdir_in(directory)?;
            let store = scratch.path().join("store");
            let progress = |round: u32| say_progress("kill", round, rounds);
            let tally = runtime.block_on(rounds::kill(
                &program,
                &store,
                durability.into(),
                rounds,
                progress,
            ))?;
            println!(
                "{} kills, {} records acknowledged, 0 lost ({tally}; {} kills while a table was \
                 written, {} left one unfinished, {} when a log was new)",
                tally.crashes,
                tally.acknowledged,
                tally.at_tables,
                tally.unfinished,
                tally.at_rotations
            );
            Ok(())
        }
        Command::PowerCut { images, directory } => {
            let scratch = tempfile::Builder::new().prefix("semel-crash-").tempdir_in(directory)?;
            let progress = |image: u32| say_progress("image", image, images);
            let tally = runtime.block_on(rounds::cut_power(
                &program,
                scratch.path(),
                Durability::Power,
                images,
                progress,
            ))?;
            anyhow::ensure!(
                tally.lost == 0,
                "{} of {} records lost",
                tally.lost,
                tally.acknowledged
            );
            println!(
                "{} images, {} records acknowledged, 0 lost ({tally})",
                tally.crashes, tally.acknowledged
            );
            Ok(())
        }
    }
}

fn say_progress(what: &str, done: u32, all: u32) {
    if (done + 1).is_multiple_of(25) || done + 1 == all {
        eprintln!("{what} {} of {all}", done + 1);
    }
}
