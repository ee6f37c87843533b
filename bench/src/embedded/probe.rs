//! Look-ups on a full store, and the memory they take, in a process of their own.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, bail};
use rand::RngExt as _;
use semel_core::{Claim, Policy};
use semel_embedded::Options;
use semel_store::{CacheLimits, Cached, Store};

use super::{fill, load};

const LOOKUPS: u64 = 300_000;
/// So few records that all fit into the cache.
const CACHED: u64 = 50_000;

/// Prints look-ups/s from the engine, look-ups/s from the cache, and megabytes resident.
pub(crate) fn run(path: &Path, records: u64) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let store = Options::new(path).open()?;
    runtime.block_on(look_up(&store, records, LOOKUPS))?;
    let from_engine = runtime.block_on(look_up(&store, records, LOOKUPS))?;
    let memory = resident_mb()?;
    let clock = store.clock();
    let cached = Cached::new(store, clock, CacheLimits::default());
    for number in 0..CACHED {
        runtime.block_on(replay(&cached, number, &Policy::default()))?;
    }
    let from_cache = runtime.block_on(look_up(&cached, CACHED, 4 * LOOKUPS))?;
    println!("{from_engine} {from_cache} {memory}");
    Ok(())
}

async fn look_up<S: Store>(store: &S, records: u64, lookups: u64) -> anyhow::Result<f64> {
    let policy = Policy::default();
    let mut random = rand::rng();
    let started = Instant::now();
    for _ in 0..lookups {
        replay(store, random.random_range(0..records), &policy).await?;
    }
    Ok(lookups as f64 / started.elapsed().as_secs_f64())
}

async fn replay<S: Store>(store: &S, number: u64, policy: &Policy) -> anyhow::Result<()> {
    let attempt = load::attempt(load::id(fill::SERIES, number));
    match store.claim(&attempt, policy).await? {
        Claim::Replay { .. } => Ok(()),
        other => bail!("record {number} was answered with {other:?}"),
    }
}

fn resident_mb() -> anyhow::Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("no VmRSS")?;
    let kilobytes: f64 = line.split_whitespace().nth(1).context("no number")?.parse()?;
    Ok(kilobytes / 1_024.0)
}
