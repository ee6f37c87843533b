//! Duplicates that wait on another node.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use semel_core::{Fingerprint, InFlight, Outcome, Policy, RecordId, Reply};
use semel_engine::{Answer, Engine};
use semel_redis::Options;
use semel_testserver::Redis;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::figures::{Line, millis};
use crate::store_load::{fresh, id_bytes};

const WAITERS: usize = 1_000;
/// How long they wait, and are watched.
const WATCHED: Duration = Duration::from_secs(5);

pub(super) async fn run(server: &Redis) -> anyhow::Result<Vec<Line>> {
    let mut lines = Vec::new();
    for (records, what) in [(1, "one record"), (WAITERS, "a record each")] {
        let (delays, polls) = measure(server, records).await?;
        let at = |share: usize| delays[delays.len() * share / 100];
        println!(
            "{WAITERS} waiters, {what}: p50 {} p99 {} after the settlement; {polls:.0} polls/s while they wait",
            millis(at(50)),
            millis(at(99)),
        );
        lines.push(Line {
            what: format!("{WAITERS} waiters on another node, {what}: median after the settlement"),
            value: millis(at(50)),
            asked: "under 50 ms".into(),
            reached: at(50) < Duration::from_millis(50),
        });
    }
    Ok(lines)
}

/// One node executes, and all waiters are on another.
async fn measure(server: &Redis, records: usize) -> anyhow::Result<(Vec<Duration>, f64)> {
    let node = async || anyhow::Ok(Engine::new(Options::from_url(&server.url())?.open().await?));
    let (one, other) = (node().await?, node().await?);
    let ids: Vec<RecordId> =
        (0..records).map(|_| RecordId::from_bytes(id_bytes(fresh()))).collect();
    let (finish, finished) = watch::channel(false);
    let mut executing = JoinSet::new();
    for &id in &ids {
        let (one, mut finished) = (one.clone(), finished.clone());
        executing.spawn(async move {
            let work = async move |_| {
                let _ = finished.wait_for(|over| *over).await;
                Outcome::Completed(Reply::new(vec![0xab; 300]))
            };
            let attempt = one.attempt(id, fingerprint());
            one.once(attempt, &Policy::default(), work).await.map(|_| (id, Instant::now()))
        });
    }
    let mut waiting = JoinSet::new();
    let policy = Policy::builder().in_flight(InFlight::Wait(Duration::from_mins(1))).build()?;
    until(|| one.running() == records).await;
    // Time for the claims to be made, so that no waiter is the first.
    tokio::time::sleep(Duration::from_secs(1)).await;
    for number in 0..WAITERS {
        let (other, policy, id) = (other.clone(), policy.clone(), ids[number % records]);
        waiting.spawn(async move { wait(&other, &policy, id).await });
    }
    until(|| other.waiting() == WAITERS).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = scripts_called(server)?;
    tokio::time::sleep(WATCHED).await;
    // Leases of this node are renewed meanwhile, too: every ten seconds each.
    let polls = (scripts_called(server)? - before) / WATCHED.as_secs_f64();
    finish.send_replace(true);
    let mut settled = std::collections::HashMap::new();
    for executed in executing.join_all().await {
        let (id, at) = executed?;
        settled.insert(id, at);
    }
    let mut delays = Vec::new();
    for waited in waiting.join_all().await {
        let (id, at) = waited?;
        delays.push(at.saturating_duration_since(settled[&id]));
    }
    delays.sort();
    Ok((delays, polls))
}

async fn wait(node: &Engine, policy: &Policy, id: RecordId) -> anyhow::Result<(RecordId, Instant)> {
    let work = async |_| Outcome::Completed(Reply::default());
    match node.once(node.attempt(id, fingerprint()), policy, work).await? {
        Answer::Replayed { .. } => Ok((id, Instant::now())),
        other => bail!("a waiter was answered {other:?}"),
    }
}

fn fingerprint() -> Fingerprint {
    Fingerprint::from_bytes([7; 32])
}

async fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn scripts_called(server: &Redis) -> anyhow::Result<f64> {
    let stats = server.cli(&["INFO", "commandstats"])?;
    let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).context("none")?;
    let calls = line.split(['=', ',']).nth(1).context("no number")?;
    Ok(calls.parse()?)
}
