//! Claims while a million records expire.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use semel_core::Policy;
use semel_postgres::PostgresStore;
use semel_store::Store;
use tokio::task::JoinSet;

use super::{Bench, load, pgbench};
use crate::figures::{Line, Round, cpu_time, median_p99};

/// One step of the store's own sweeper, and how it rests.
const STEP: usize = 500;
/// How long claims are measured without a sweep.
const QUIET: Duration = Duration::from_secs(10);

pub(super) async fn run(bench: &Bench<'_>) -> anyhow::Result<Vec<Line>> {
    let mut lines = Vec::new();
    for &clients in &bench.arguments.clients {
        let (mut quiet, mut sweeping) = (Vec::new(), Vec::new());
        for _ in 0..bench.arguments.schedule.rounds {
            expire(bench)?;
            // The same table, the same claims; only the sweep is missing.
            let without = claims(&bench.store, clients, until(QUIET)).await?;
            println!("claims, {clients} clients, no sweep      {}", without.describe());
            let began = Instant::now();
            let store = bench.store.clone();
            let sweep = tokio::spawn(async move { sweep(&store).await });
            let with = claims(&bench.store, clients, async move {
                let swept = sweep.await;
                if !matches!(swept, Ok(Ok(()))) {
                    eprintln!("the sweep failed: {swept:?}");
                }
            })
            .await?;
            println!("claims, {clients} clients, while expiring {}", with.describe());
            println!("  swept in {:.1} s", began.elapsed().as_secs_f64());
            quiet.push(without);
            sweeping.push(with);
        }
        let ratio = median_p99(&sweeping) / median_p99(&quiet);
        lines.push(Line {
            what: format!("claim p99 while records expire, {clients} clients, against without"),
            value: format!("{ratio:.2} x"),
            asked: "at most 2 x".into(),
            reached: ratio <= 2.0,
        });
    }
    Ok(lines)
}

/// Inserts expired records into the table.
fn expire(bench: &Bench<'_>) -> anyhow::Result<()> {
    let id = pgbench::id_sql("(random() * 9e18)");
    let sql = format!(
        "INSERT INTO semel.record
                (id, fingerprint, owner, created, expires, fence, until, state, reply)
         SELECT {id}, {id}, gen_random_uuid(), 0, n, 1, 0, 3, decode(repeat('ab', 300), 'hex')
         FROM generate_series(1, {}) n ON CONFLICT DO NOTHING",
        bench.arguments.expiring
    );
    bench.server.psql(&sql)?;
    bench.server.psql("VACUUM ANALYZE semel.record")?;
    bench.server.psql("CHECKPOINT")?;
    Ok(())
}

async fn until(time: Duration) {
    tokio::time::sleep(time).await;
}

async fn sweep(store: &PostgresStore) -> anyhow::Result<()> {
    loop {
        let began = Instant::now();
        if !store.sweep(STEP).await?.more {
            return Ok(());
        }
        tokio::time::sleep(began.elapsed() * 3).await;
    }
}

/// Pairs until `end`; the latencies are those of the claims.
async fn claims(
    store: &PostgresStore,
    clients: usize,
    end: impl Future<Output = ()>,
) -> anyhow::Result<Round> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    let (began, cpu) = (Instant::now(), cpu_time());
    for _ in 0..clients {
        let (store, stop) = (store.clone(), stop.clone());
        tasks.spawn(async move {
            let policy = Policy::default();
            let mut latencies = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                latencies.push(load::pair(&store, &policy).await?);
            }
            anyhow::Ok(latencies)
        });
    }
    end.await;
    stop.store(true, Ordering::Relaxed);
    let mut latencies = Vec::new();
    for ended in tasks.join_all().await {
        latencies.extend(ended?);
    }
    Ok(Round::new(began.elapsed(), cpu_time().saturating_sub(cpu), latencies))
}
