//! Semel and the field in one table: published middlewares around the same app, nginx, and apps
//! alone.

pub(crate) mod document;
pub(crate) mod entrant;
mod goals;
mod machine;
pub(crate) mod roster;
mod rounds;
pub(crate) mod table;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::ensure;

use crate::gateway::memory;
use crate::growth::{self, Limits};
use crate::http::load::Wrk;
use crate::http::tools::Tools;
use crate::http::{procfs, stop};
use crate::probes;
use document::{PARTS, Part};
use entrant::{Entrant, Ground};
use roster::Entry;
use rounds::Arena;

/// Where the figures are kept.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/benchmarks.md");

/// Programs for the servers and the peers, and Debian's packages of them.
const SERVERS_AND_PEERS: [(&str, &str); 5] = [
    ("redis-server", "redis-server"),
    ("postgres", "postgresql"),
    ("node", "nodejs"),
    ("npm", "npm"),
    ("python3", "python3-venv"),
];

/// How long a round takes where cost grows: there are many sizes.
const GROWTH_SECONDS: u64 = 2;

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Rounds of each subject; medians are written.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    rounds: u8,
    /// How long a round takes.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// One round of one second, and few records: for a look, not for figures.
    #[arg(long, conflicts_with_all = ["seconds", "rounds"])]
    quick: bool,
    /// Only these parts [default: all of table, probes, growth]
    #[arg(long, value_delimiter = ',', hide_default_value = true, default_values = PARTS)]
    parts: Vec<String>,
    /// The most records that the embedded store is filled with [default: 10 million, quick: 10,000]
    #[arg(long)]
    records_max: Option<u64>,
    #[command(flatten)]
    choice: Choice,
}

/// Which subjects, and where.
#[derive(clap::Args, Clone)]
pub(crate) struct Choice {
    /// Only subjects whose name contains this; may be given more than once.
    #[arg(long, value_name = "SUBSTRING")]
    only: Vec<String>,
    /// The page to write, and a directory of that name for plots [default: docs/benchmarks.md; without
    /// it, quick runs and runs with --only are printed alone]
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The disk to measure: a directory for scratch files.
    #[arg(long, default_value = ".")]
    directory: PathBuf,
    /// The gateway to measure [default: built from these sources]
    #[arg(long, value_name = "PROGRAM")]
    semel: Option<PathBuf>,
}

/// All that a run needs to know.
struct Run {
    entries: Vec<&'static Entry>,
    tools: Tools,
    rounds: usize,
    seconds: u64,
    limits: Limits,
    page: Option<PathBuf>,
}

/// The command `all`.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    for part in &arguments.parts {
        ensure!(PARTS.contains(&part.as_str()), "no such part: {part}; there are {PARTS:?}");
    }
    stop::listen()?;
    memory::raise_limit()?;
    let run = Run::new(arguments)?;
    let parts: Vec<&'static str> =
        PARTS.into_iter().filter(|part| arguments.parts.iter().any(|it| it == part)).collect();
    run.introduce(&parts);
    let directory = arguments.choice.directory.canonicalize()?;
    for name in parts {
        // For each part, so that what one leaves on the disk does not burden the next.
        let scratch = tempfile::Builder::new().prefix("semel-bench-").tempdir_in(&directory)?;
        let text = run.part(name, scratch.path())?;
        run.write(Part { name, text })?;
    }
    println!("\nload average at the end (this run included): {}", procfs::load_average());
    Ok(())
}

/// The command `probes`.
pub(crate) fn probes(choice: &Choice) -> anyhow::Result<()> {
    run(&Arguments {
        rounds: 1,
        seconds: 1,
        quick: false,
        parts: vec!["probes".to_owned()],
        records_max: None,
        choice: choice.clone(),
    })
}

// === impl Run ===

impl Run {
    fn new(arguments: &Arguments) -> anyhow::Result<Self> {
        let choice = &arguments.choice;
        let entries = roster::chosen(&choice.only);
        ensure!(!entries.is_empty(), "no subject is named like {:?}", choice.only);
        let (rounds, seconds) = if arguments.quick {
            (1, 1)
        } else {
            (usize::from(arguments.rounds), arguments.seconds)
        };
        let is_whole = !arguments.quick && choice.only.is_empty();
        let page = choice.output.clone().or_else(|| is_whole.then(|| PAGE.into()));
        let records =
            arguments.records_max.unwrap_or(if arguments.quick { 10_000 } else { 10_000_000 });
        let limits = Limits { rounds, seconds: seconds.min(GROWTH_SECONDS), records };
        // A selection may need few of these tools, so each is checked when it is needed.
        let also: &[_] = if choice.only.is_empty() { &SERVERS_AND_PEERS } else { &[] };
        let tools = Tools::find(choice.semel.as_deref(), also)?;
        Ok(Self { entries, tools, rounds, seconds, limits, page })
    }

    fn introduce(&self, parts: &[&str]) {
        println!("{}", self.tools.versions());
        for entry in &self.entries {
            println!("- {}", entry.name);
        }
        let of = |part: &str| match part {
            "table" => rounds::seconds(&self.entries, self.rounds, self.seconds),
            "probes" => probes::SECONDS,
            _ => growth::seconds(&self.limits),
        };
        let minutes = parts.iter().map(|part| of(part)).sum::<f64>() / 60.0;
        println!("{} takes about {minutes:.0} minutes once all is built", parts.join(", "));
        println!("load average at the start: {}", procfs::load_average());
    }

    fn part(&self, name: &str, scratch: &Path) -> anyhow::Result<String> {
        println!("\n== {name}");
        let taken = machine::describe(&self.tools, &machine::command(), scratch);
        Ok(match name {
            "table" => format!("## The table\n\n{taken}{}", self.table(scratch)?),
            "probes" => {
                let ground = Ground::prepare(&[], &self.tools, scratch)?;
                format!("## Probes\n\n{taken}{}", probes::run(&self.entries, &ground)?)
            }
            _ => {
                let plots = self.page.as_ref().map(|page| page.with_extension(""));
                let grown = growth::run(&self.limits, &self.tools, scratch, plots.as_deref())?;
                format!("## How cost grows\n\n{taken}{grown}")
            }
        })
    }

    fn table(&self, scratch: &Path) -> anyhow::Result<String> {
        let ground = Ground::prepare(&self.entries, &self.tools, scratch)?;
        let start = |entry: &&'static Entry| Entrant::start(entry, &ground);
        let entrants = self.entries.iter().map(start).collect::<anyhow::Result<Vec<_>>>()?;
        let wrk = Wrk::new(self.tools.wrk.clone(), scratch);
        let rows = Arena::new(entrants, wrk)?.measure(self.rounds, self.seconds)?;
        let length = Duration::from_secs(self.seconds);
        let rounds = self.rounds;
        Ok(format!(
            "- Rounds: {rounds} of {length:?} for each row, in turns, after one that warms up; \
             `wrk -t1` sends 200 bytes of JSON and gets 300.\n{}\n## Goals\n{}\n## Where Semel loses\n{}",
            table::write(&rows),
            goals::write_goals(&rows),
            goals::write_losses(&rows) + &goals::write_delays(&rows)
        ))
    }

    fn write(&self, part: Part) -> anyhow::Result<()> {
        println!("\n{}", part.text);
        if let Some(page) = &self.page {
            document::write(page, &[part])?;
            println!("written to {}", page.display());
        }
        Ok(())
    }
}
