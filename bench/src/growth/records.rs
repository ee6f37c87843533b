//! The embedded store with ever more records in it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use semel_core::{Claim, Policy, Reply, Settlement};
use semel_embedded::{Durability, EmbeddedStore, Options};
use semel_store::{Settled, Store as _};

use super::{Curve, Limits, Question};
use crate::embedded::{fill, load};
use crate::figures::Round;
use crate::http::stop;

const FEWEST: u64 = 1_000;
const PRODUCERS: usize = 64;
const REPLY_BYTES: usize = 320;
/// What a record takes on the disk at most, while the engine merges its tables.
const DISK_BYTES: u64 = 1_200;
/// Records that are settled per second while a store is filled, about.
const FILLED_PER_SECOND: f64 = 35_000.0;

pub(super) fn seconds(limits: &Limits) -> f64 {
    let measured = 2.0 * (limits.rounds as u64 * limits.seconds) as f64;
    sizes(limits.records).map(|size| size as f64 / FILLED_PER_SECOND + measured + 1.0).sum()
}

/// Each size is a store of its own, so that what is measured on one does not count on the next.
pub(super) fn measure(limits: &Limits, scratch: &Path) -> anyhow::Result<Question> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut pairs = Curve::new("claim + settle, 64 callers");
    let mut replays = Curve::new("replay, 1 caller");
    let mut missing = Vec::new();
    for size in sizes(limits.records) {
        stop::check()?;
        if !fits(size, scratch)? {
            let left_out =
                format!("{size} records and more: there is too little space on this disk");
            println!("{left_out}");
            missing.push(left_out);
            break;
        }
        let path = scratch.join(format!("records-{size}"));
        runtime.block_on(filled(&path, size))?;
        let store = opened(&path)?;
        let mut rounds = [Vec::new(), Vec::new()];
        for _ in 0..limits.rounds {
            let time = Duration::from_secs(limits.seconds);
            rounds[0].push(runtime.block_on(settle_pairs(&store, time))?);
            rounds[1].push(runtime.block_on(replay(&store, size, time))?);
        }
        for (what, rounds) in ["claim + settle", "replay"].iter().zip(&rounds) {
            if let Some(round) = rounds.last() {
                println!("{size:>9} records  {what:<15} {}", round.describe());
            }
        }
        let figures = rounds.map(|rounds| {
            rounds.iter().map(|it| (it.per_second, it.p99.as_secs_f64() * 1e3)).collect::<Vec<_>>()
        });
        pairs.push(size as f64, &figures[0]);
        replays.push(size as f64, &figures[1]);
        drop(store);
        std::fs::remove_dir_all(&path)?;
    }
    Ok(Question {
        slug: "records",
        title: "Records in the embedded store (durability power)",
        x: "settled records of 400 bytes in the store at the start",
        curves: vec![pairs, replays],
        missing,
    })
}

fn sizes(most: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(FEWEST), |size| size.checked_mul(10))
        .take_while(move |size| *size <= most)
}

fn fits(records: u64, directory: &Path) -> anyhow::Result<bool> {
    let disk = rustix::fs::statvfs(directory)?;
    Ok(records * DISK_BYTES < disk.f_bavail * disk.f_frsize)
}

/// Fills a store without syncing each group, which is quicker, and says how it goes.
async fn filled(path: &Path, records: u64) -> anyhow::Result<()> {
    let began = Instant::now();
    let options = Options::new(path).durability(Durability::Process).sweep_every(None);
    let store = options.open()?;
    fill::settle_many(&store, records, Policy::default()).await?;
    println!("{records:>9} records  filled in {:.1} s", began.elapsed().as_secs_f64());
    Ok(())
}

/// Its last owner, of a moment ago, may still be about to end.
fn opened(path: &Path) -> anyhow::Result<EmbeddedStore> {
    const LONGEST: Duration = Duration::from_secs(10);
    let began = Instant::now();
    loop {
        match Options::new(path).sweep_every(None).open() {
            Ok(store) => return Ok(store),
            Err(error) if began.elapsed() > LONGEST => return Err(error.into()),
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

async fn settle_pairs(store: &EmbeddedStore, time: Duration) -> anyhow::Result<Round> {
    let (store, policy) = (store.clone(), Arc::new(Policy::default()));
    let until = Instant::now() + time;
    load::round_while(
        PRODUCERS,
        move |_| Instant::now() < until,
        move |id| {
            let (store, policy) = (store.clone(), Arc::clone(&policy));
            async move {
                let Claim::Execute(lease) = store.claim(&load::attempt(id), &policy).await? else {
                    bail!("a fresh id was claimed before");
                };
                let settlement = Settlement::Completed(Reply::new(vec![0xab; REPLY_BYTES]));
                match store.settle(&lease, settlement).await? {
                    Settled::Recorded => Ok(()),
                    Settled::Refused(_) => bail!("a lease was refused"),
                }
            }
        },
    )
    .await
    .context("claim + settle")
}

async fn replay(store: &EmbeddedStore, records: u64, time: Duration) -> anyhow::Result<Round> {
    let (store, policy) = (store.clone(), Arc::new(Policy::default()));
    let until = Instant::now() + time;
    load::round_while(
        1,
        move |_| Instant::now() < until,
        move |_| {
            let (store, policy) = (store.clone(), Arc::clone(&policy));
            async move {
                let number = rand::random_range(0..records);
                let attempt = load::attempt(load::id(fill::SERIES, number));
                match store.claim(&attempt, &policy).await? {
                    Claim::Replay { .. } => Ok(()),
                    other => bail!("record {number} was answered with {other:?}"),
                }
            }
        },
    )
    .await
    .context("replay")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_decades() {
        assert_eq!(sizes(100_000).collect::<Vec<_>>(), [1_000, 10_000, 100_000]);
        assert_eq!(sizes(10).count(), 0);
    }
}
