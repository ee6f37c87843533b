//! The command `semel`: one file per command.
//!
//! Standard output is data, standard error is diagnostics. Exit codes are in `exit`.

mod check;
mod completions;
mod configuration;
mod demo;
mod exit;
mod gateway;
#[cfg(feature = "postgres")]
mod migrate;
mod paint;
mod signals;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A request costs many small allocations, and after a burst their memory should go back.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// An idempotency gateway: a retried request takes effect once, and every retry gets the first
/// response back.
#[derive(Parser)]
#[command(name = "semel", version, propagate_version = true, after_help = AFTER_HELP)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Gateway(gateway::Arguments),
    Check(check::Arguments),
    #[cfg(feature = "postgres")]
    Migrate(migrate::Arguments),
    Demo(demo::Arguments),
    Completions(completions::Arguments),
}

const AFTER_HELP: &str = "\
Start here:
  semel demo                                         try it, with nothing else installed
  semel gateway --upstream http://127.0.0.1:3000     protect an API on this machine

Exit codes: 0 fine, 1 failed, 2 wrong usage or configuration.";

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Gateway(arguments) => gateway::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        #[cfg(feature = "postgres")]
        Command::Migrate(arguments) => migrate::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Completions(arguments) => completions::run(&arguments),
    };
    exit::code(outcome)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_arguments_go_together() {
        super::Arguments::command().debug_assert();
    }
}
