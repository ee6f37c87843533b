//! Benchmarks of Semel. Each command measures its subjects side by side in one run and prints a
//! table of ratios. They are not tests: nothing here passes or fails.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures the machine's own time")]
#![expect(clippy::cast_precision_loss, reason = "figures are printed with three digits")]

mod embedded;
mod field;
mod figures;
mod flood;
mod gateway;
mod growth;
mod http;
mod postgres;
mod probes;
mod rawlog;
mod redis;
mod store_load;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Measures Semel against what it stands on.
#[derive(Parser)]
#[command(name = "semel-bench")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Semel against the field: one table, probes, and how cost grows; written to docs/benchmarks.md.
    All(field::Arguments),
    /// What Semel and its peers do with retries in difficult moments; a part of `all`.
    Probes(field::Choice),
    /// The embedded store against a raw, group-committed append log on the same disk.
    Embedded(embedded::Arguments),
    /// The gateway against nginx as a plain reverse proxy, and what protection adds.
    Gateway(gateway::Arguments),
    /// One client that resets its requests, and another that works meanwhile.
    Flood(flood::Arguments),
    /// The PostgreSQL store and same-transaction mode against pgbench and plain transactions.
    Postgres(postgres::Arguments),
    /// The Redis store against redis-benchmark with the same scripts.
    Redis(redis::Arguments),
    /// Fills a store and waits to be killed; started by `embedded`.
    #[command(hide = true)]
    Fill {
        /// Where.
        path: PathBuf,
        /// How many records.
        records: u64,
    },
    /// Opens a filled store and prints its figures; started by `embedded`.
    #[command(hide = true)]
    Probe {
        /// Where.
        path: PathBuf,
        /// How many records are in it.
        records: u64,
    },
    /// An API that answers at once; started by `all`, `gateway` and `redis`.
    #[command(hide = true)]
    Upstream,
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::All(arguments) => field::run(&arguments),
        Command::Probes(choice) => field::probes(&choice),
        Command::Embedded(arguments) => embedded::run(&arguments),
        Command::Gateway(arguments) => gateway::run(&arguments),
        Command::Flood(arguments) => flood::run(&arguments),
        Command::Postgres(arguments) => postgres::run(&arguments),
        Command::Redis(arguments) => redis::run(&arguments),
        Command::Upstream => http::upstream::serve(),
        Command::Fill { path, records } => embedded::fill::run(&path, records),
        Command::Probe { path, records } => embedded::probe::run(&path, records),
    }
}
