//! Producers that claim as fast as they are answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use semel_core::{Attempt, Claim, Fingerprint, Owner, Policy, RecordId};
use semel_store::Store;

use crate::figures::{Round, cpu_time};
use crate::rawlog::RawLog;

/// The bytes that a fresh claim takes in the embedded store, so that both subjects write the same.
const CLAIM_BYTES: usize = 86;

/// The id of record `number` of a series.
pub(crate) fn id(series: u64, number: u64) -> RecordId {
    let key =
        Fingerprint::new([("series", series.to_be_bytes()), ("number", number.to_be_bytes())]);
    RecordId::from_bytes(*key.as_bytes())
}

pub(crate) fn attempt(id: RecordId) -> Attempt {
    Attempt::new(id, Fingerprint::from_bytes([7; 32]), Owner::from_u128(rand::random()))
}

pub(crate) async fn append(log: RawLog, producers: usize, claims: u64) -> Round {
    let log = Arc::new(log);
    round(producers, claims, move |id| {
        let log = Arc::clone(&log);
        async move {
            // The same work as a caller of the store does before its call.
            let attempt = attempt(id);
            let mut value = vec![0_u8; CLAIM_BYTES];
            value[..16].copy_from_slice(&attempt.owner().as_u128().to_le_bytes());
            assert!(log.append(*attempt.id().as_bytes(), value).await, "every id is fresh");
            Ok(())
        }
    })
    .await
    .unwrap_or_else(|error| panic!("the raw log failed: {error}"))
}

pub(crate) async fn claim<S: Store>(
    store: S,
    producers: usize,
    claims: u64,
) -> anyhow::Result<Round> {
    claim_while(store, producers, move |number| number < claims).await
}

/// Claims for as long as `goes_on`.
pub(crate) async fn claim_while<S: Store>(
    store: S,
    producers: usize,
    goes_on: impl Fn(u64) -> bool + Clone + Send + 'static,
) -> anyhow::Result<Round> {
    let store = Arc::new(store);
    let policy = Arc::new(Policy::default());
    round_while(producers, goes_on, move |id| {
        let (store, policy) = (Arc::clone(&store), Arc::clone(&policy));
        async move {
            match store.claim(&attempt(id), &policy).await.context("claim")? {
                Claim::Execute(_lease) => Ok(()),
                other => bail!("a fresh id was answered with {other:?}"),
            }
        }
    })
    .await
}

/// Runs `work` on fresh ids from `producers` tasks until `claims` are done.
pub(crate) async fn round<W, F>(producers: usize, claims: u64, work: W) -> anyhow::Result<Round>
where
    W: Fn(RecordId) -> F + Clone + Send + 'static,
    F: Future<Output = anyhow::Result<()>> + Send,
{
    round_while(producers, move |number| number < claims, work).await
}

/// The same for as long as `goes_on`, which is asked before each with its number.
pub(crate) async fn round_while<G, W, F>(
    producers: usize,
    goes_on: G,
    work: W,
) -> anyhow::Result<Round>
where
    G: Fn(u64) -> bool + Clone + Send + 'static,
    W: Fn(RecordId) -> F + Clone + Send + 'static,
    F: Future<Output = anyhow::Result<()>> + Send,
{
    let series = rand::random();
    let next = Arc::new(AtomicU64::new(0));
    let (started, cpu) = (Instant::now(), cpu_time());
    let tasks: Vec<_> = (0..producers)
        .map(|_| {
            let (next, goes_on, work) = (Arc::clone(&next), goes_on.clone(), work.clone());
            tokio::spawn(async move {
                let mut latencies: Vec<Duration> = Vec::new();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if !goes_on(number) {
                        return anyhow::Ok(latencies);
                    }
                    let id = id(series, number);
                    let asked = Instant::now();
                    work(id).await?;
                    latencies.push(asked.elapsed());
                }
            })
        })
        .collect();
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await??);
    }
    Ok(Round::new(started.elapsed(), cpu_time().saturating_sub(cpu), latencies))
}
