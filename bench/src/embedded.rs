//! The embedded store against a raw log.

pub(crate) mod expiry;
pub(crate) mod fill;
pub(crate) mod full;
pub(crate) mod load;
pub(crate) mod probe;

use std::path::PathBuf;

use semel_embedded::{Durability, Options};

use crate::figures::{Line, Round, median_p99, median_rate, print_table};
use crate::rawlog::RawLog;

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The disk to measure: a directory for scratch files.
    #[arg(long, default_value = ".")]
    directory: PathBuf,
    /// Rounds of each subject; medians are printed.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Claims per round.
    #[arg(long, default_value_t = 100_000)]
    claims: u64,
    /// Records in the full store.
    #[arg(long, default_value_t = 2_000_000)]
    records: u64,
    /// Records that expire while claims run.
    #[arg(long, default_value_t = 1_000_000)]
    expiring: u64,
    /// Only these parts (fresh, full, expiry).
    #[arg(long, value_delimiter = ',', default_value = "fresh,full,expiry")]
    parts: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let scratch =
        tempfile::Builder::new().prefix("semel-bench-").tempdir_in(&arguments.directory)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let wants = |part: &str| arguments.parts.iter().any(|wanted| wanted == part);
    let mut lines = Vec::new();
    if wants("fresh") {
        lines.extend(runtime.block_on(fresh(arguments, scratch.path()))?);
    }
    if wants("full") {
        lines.extend(full::run(arguments, scratch.path(), &runtime)?);
    }
    if wants("expiry") {
        lines.extend(runtime.block_on(expiry::run(arguments, scratch.path()))?);
    }
    print_table(&lines);
    Ok(())
}

/// Claims on an empty store, in turns with the raw log.
async fn fresh(arguments: &Arguments, scratch: &std::path::Path) -> anyhow::Result<Vec<Line>> {
    let mut lines = Vec::new();
    for producers in [64, 256] {
        let (mut raw, mut power, mut process) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..arguments.rounds {
            let path = scratch.join(format!("raw-{producers}-{round}"));
            let log = RawLog::create(&path)?;
            raw.push(load::append(log, producers, arguments.claims).await);
            report("raw log", producers, &raw);
            for (durability, rounds) in
                [(Durability::Power, &mut power), (Durability::Process, &mut process)]
            {
                let path = scratch.join(format!("{durability:?}-{producers}-{round}"));
                let store = Options::new(&path).durability(durability).open()?;
                rounds.push(load::claim(store, producers, arguments.claims).await?);
                report(&format!("embedded, {durability:?}"), producers, rounds);
                std::fs::remove_dir_all(&path)?;
            }
            std::fs::remove_file(&path)?;
        }
        let ratio = median_rate(&power) / median_rate(&raw);
        lines.push(Line {
            what: format!("durable claims/s, {producers} producers, against the raw log"),
            value: format!("{ratio:.2}"),
            asked: "at least 0.60",
            reached: ratio >= 0.60,
        });
        if producers == 64 {
            let ratio = median_p99(&power) / median_p99(&raw);
            lines.push(Line {
                what: "claim p99, 64 producers, against the raw log's".into(),
                value: format!("{ratio:.2} x"),
                asked: "at most 2.5 x",
                reached: ratio <= 2.5,
            });
        }
    }
    Ok(lines)
}

pub(crate) fn report(what: &str, producers: usize, rounds: &[Round]) {
    if let Some(round) = rounds.last() {
        println!("{what:<22} {producers:>4} producers {}", round.describe());
    }
}
