//! Many clients, few keys: every verb on every state.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use semel_core::{Claim, OnAbandoned, Policy, Release, Reply, Settlement};
use semel_postgres::PostgresStore;
use semel_store::Store;

use super::Bench;
use crate::figures::Line;
use crate::store_load as load;

const CLIENTS: usize = 64;
const KEYS: u64 = 100;

pub(super) async fn run(bench: &Bench<'_>) -> anyhow::Result<Line> {
    let before = deadlocks(bench)?;
    // Short lives, so that records are abandoned, taken over, expired and swept all the time.
    let policy = Policy::builder()
        .lease(Duration::from_millis(10))
        .ttl(Duration::from_millis(50))
        .on_abandoned(OnAbandoned::Reexecute)
        .build()?;
    let policy = Arc::new(policy);
    let time = Duration::from_secs(bench.arguments.contended);
    let rate = load::per_second(CLIENTS, time, |client| {
        let (store, policy) = (bench.store.clone(), policy.clone());
        move || hammer(store.clone(), policy.clone(), client)
    })
    .await?;
    let deadlocks = deadlocks(bench)? - before;
    println!("{CLIENTS} clients on {KEYS} keys              {rate:>9.0}/s");
    Ok(Line {
        what: format!(
            "deadlocks, {CLIENTS} clients on {KEYS} keys for {} s",
            bench.arguments.contended
        ),
        value: deadlocks.to_string(),
        asked: "0".into(),
        reached: deadlocks == 0,
    })
}

async fn hammer(store: PostgresStore, policy: Arc<Policy>, client: usize) -> anyhow::Result<()> {
    if client == 0 {
        store.sweep(50).await?;
    }
    let number = u64::MAX - rand::random_range(0..KEYS);
    let Claim::Execute(lease) = store.claim(&load::attempt(number), &policy).await? else {
        return Ok(());
    };
    match rand::random_range(0..4) {
        0 => drop(store.release(&lease, Release::Retry).await?),
        1 => drop(store.renew(&lease, policy.lease()).await?),
        2 => {}
        _ => {
            let settlement = Settlement::Completed(Reply::new("done"));
            drop(store.settle(&lease, settlement).await?);
        }
    }
    Ok(())
}

fn deadlocks(bench: &Bench<'_>) -> anyhow::Result<u64> {
    let sql = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    bench.server.psql(sql)?.trim().parse().context("the number of deadlocks")
}
