//! The command `semel`: one file per command.
//!
//! Exit codes: 0 fine, 1 failed, 2 wrong usage. Standard output is data, standard error is talk.

mod completions;
mod demo;
mod paint;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Makes retries safe: a request that arrives many times takes effect once, and every retry gets
/// the first answer back.
#[derive(Parser)]
#[command(name = "semel", version, propagate_version = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Shows what Semel does: charges, retries, duplicates and crashes on a durable store.
    Demo(demo::Arguments),
    /// Prints a completion script for your shell.
    Completions(completions::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("semel: {error:#}");
            ExitCode::FAILURE
        }
    }
}
