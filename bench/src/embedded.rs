//! The embedded store against a raw log.

pub(crate) mod expiry;
pub(crate) mod fill;
pub(crate) mod full;
pub(crate) mod load;
pub(crate) mod probe;

use std::path::{Path, PathBuf};

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
async fn fresh(arguments: &Arguments, scratch: &Path) -> anyhow::Result<Vec<Line>> {
    let mut lines = Vec::new();
    for producers in [64, 256] {
        let (mut raw, mut power, mut process) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..arguments.rounds {
            // In turns: the second finds the disk and the processor in another state.
            for turn in 0..3 {
                match (round + turn) % 3 {
                    0 => raw.push(append(arguments, scratch, producers).await?),
                    1 => power.push(claim(arguments, scratch, producers, Durability::Power).await?),
                    _ => {
                        process
                            .push(claim(arguments, scratch, producers, Durability::Process).await?);
                    }
                }
            }
        }
        let ratio = median_rate(&power) / median_rate(&raw);
        lines.push(Line {
            what: format!("durable claims/s, {producers} producers, against the raw log"),
            value: format!("{ratio:.2}"),
            asked: "at least 0.60".into(),
            reached: ratio >= 0.60,
        });
        if producers == 64 {
            let ratio = median_p99(&power) / median_p99(&raw);
            lines.push(Line {
                what: "claim p99, 64 producers, against the raw log's".into(),
                value: format!("{ratio:.2} x"),
                asked: "at most 2.5 x".into(),
                reached: ratio <= 2.5,
            });
        }
    }
    Ok(lines)
}

async fn append(arguments: &Arguments, scratch: &Path, producers: usize) -> anyhow::Result<Round> {
    let path = scratch.join("raw");
    let round = load::append(RawLog::create(&path)?, producers, arguments.claims).await;
    std::fs::remove_file(&path)?;
    report("raw log", producers, &[round]);
    Ok(round)
}

async fn claim(
    arguments: &Arguments,
    scratch: &Path,
    producers: usize,
    durability: Durability,
) -> anyhow::Result<Round> {
    let path = scratch.join("fresh");
    let store = Options::new(&path).durability(durability).open()?;
    let round = load::claim(store, producers, arguments.claims).await?;
    std::fs::remove_dir_all(&path)?;
    report(&format!("embedded, {durability:?}"), producers, &[round]);
    Ok(round)
}

pub(crate) fn report(what: &str, producers: usize, rounds: &[Round]) {
    if let Some(round) = rounds.last() {
        println!("{what:<22} {producers:>4} producers {}", round.describe());
    }
}
