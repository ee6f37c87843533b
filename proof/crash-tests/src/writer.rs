//! A process that writes to an embedded store until it is killed, and prints what was acknowledged.

use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::bail;
use semel_core::{Claim, Policy, Release};
use semel_embedded::{Durability, EmbeddedStore, Options};
use semel_store::{Released, Renewed, Settled, Store as _};

use crate::ledger::{Acknowledged, Name};
use crate::work::MEMTABLE_BYTES;

const TASKS: usize = 24;

/// Writes until killed, or until `limit` records are done.
pub fn run(path: &Path, durability: Durability, run: u32, limit: u32) -> anyhow::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let store = Options::new(path).durability(durability).memtable_bytes(MEMTABLE_BYTES).open()?;
    let next = Arc::new(AtomicU32::new(0));
    runtime.block_on(async {
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let (store, next) = (store.clone(), Arc::clone(&next));
                tokio::spawn(async move {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= limit {
                            return anyhow::Ok(());
                        }
                        write(&store, Name { run, number }).await?;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await??;
        }
        Ok(())
    })
}

/// One record's life, by its number: most settle, some after a renewal, some are released or left.
async fn write(store: &EmbeddedStore, name: Name) -> anyhow::Result<()> {
    let policy = Policy::default();
    let Claim::Execute(lease) = store.claim(&name.attempt(), &policy).await? else {
        bail!("{name:?} was claimed before");
    };
    say(Acknowledged::Claimed, name)?;
    if name.number % 7 == 1 {
        let Renewed::Until { .. } = store.renew(&lease, policy.lease()).await? else {
            bail!("{name:?} could not be renewed");
        };
    }
    match name.number % 10 {
        0 => Ok(()),
        1 | 2 => match store.release(&lease, Release::Retry).await? {
            Released::Done => say(Acknowledged::Released, name),
            Released::Refused(refusal) => bail!("{name:?}: {refusal:?}"),
        },
        _ => match store.settle(&lease, name.settlement()).await? {
            Settled::Recorded => say(Acknowledged::Settled, name),
            Settled::Refused(refusal) => bail!("{name:?}: {refusal:?}"),
        },
    }
}

fn say(acknowledged: Acknowledged, name: Name) -> anyhow::Result<()> {
    let line = format!("{} {} {}\n", acknowledged.word(), name.run, name.number);
    // One write: lines of two threads never mix, and a kill leaves at most one line cut off.
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes())?;
    out.flush()?;
    Ok(())
}
