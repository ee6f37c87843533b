//! Fills a store with settled records of 400 bytes.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use bytes::Bytes;
use semel_core::{Claim, Policy, Reply, Settlement};
use semel_embedded::{Durability, EmbeddedStore, Options};
use semel_store::Store as _;

use super::load;
use crate::http::stop;

/// The series of the records in a full store.
pub(crate) const SERIES: u64 = 42;

/// A record of 400 bytes: its fixed part is 80 bytes, the rest is the reply.
const REPLY_BYTES: usize = 320;

/// Fills the store, says so, and waits to be killed.
pub(crate) fn run(path: &Path, records: u64) -> anyhow::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let store = Options::new(path).durability(Durability::Process).sweep_every(None).open()?;
    runtime.block_on(settle_many(&store, records, Policy::default()))?;
    println!("filled");
    std::io::stdout().flush()?;
    loop {
        std::thread::sleep(Duration::from_mins(1));
    }
}

/// Claims and settles `records` records.
pub(crate) async fn settle_many(
    store: &EmbeddedStore,
    records: u64,
    policy: Policy,
) -> anyhow::Result<()> {
    const PRODUCERS: u16 = 1_024;
    let policy = Arc::new(policy);
    let tasks: Vec<_> = (0..PRODUCERS)
        .map(|producer| {
            let (store, policy) = (store.clone(), Arc::clone(&policy));
            tokio::spawn(async move {
                for number in (u64::from(producer)..records).step_by(usize::from(PRODUCERS)) {
                    stop::check()?;
                    settle(&store, number, &policy).await?;
                }
                anyhow::Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}

async fn settle(store: &EmbeddedStore, number: u64, policy: &Policy) -> anyhow::Result<()> {
    let attempt = load::attempt(load::id(SERIES, number));
    let Claim::Execute(lease) = store.claim(&attempt, policy).await? else {
        bail!("record {number} was claimed before");
    };
    store.settle(&lease, Settlement::Completed(reply())).await?;
    Ok(())
}

/// Half random, half compressible, as replies are.
fn reply() -> Reply {
    let mut bytes = vec![b'a'; REPLY_BYTES];
    for chunk in bytes[..REPLY_BYTES / 2].chunks_mut(8) {
        chunk.copy_from_slice(&rand::random::<u64>().to_le_bytes());
    }
    Reply::new(Bytes::from(bytes))
}
