//! Clients in a closed loop on a store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use semel_core::{Attempt, Claim, Fingerprint, Owner, Policy, RecordId, Reply, Settlement};
use semel_store::{Settled, Store};
use tokio::task::JoinSet;

/// Which keys are claimed.
#[derive(Clone, Copy)]
pub(crate) enum Keys {
    /// One of so many that are settled.
    Settled(u64),
}

/// The bytes of a number, four times: what pgbench can make, too.
pub(crate) fn id_bytes(number: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    for part in bytes.chunks_exact_mut(8) {
        part.copy_from_slice(&number.to_be_bytes());
    }
    bytes
}

pub(crate) fn attempt(number: u64) -> Attempt {
    let bytes = id_bytes(number);
    let owner = Owner::from_u128(rand::random());
    Attempt::new(RecordId::from_bytes(bytes), Fingerprint::from_bytes(bytes), owner)
}

/// A number that pgbench's are not among.
pub(crate) fn fresh() -> u64 {
    rand::random::<u64>() >> 1
}

/// Claims a fresh key and settles it with 300 bytes; gives how long the claim took.
pub(crate) async fn pair(store: &impl Store, policy: &Policy) -> anyhow::Result<Duration> {
    pair_of(store, policy, vec![0xab; 300]).await
}

/// The same, with this reply.
pub(crate) async fn pair_of(
    store: &impl Store,
    policy: &Policy,
    reply: Vec<u8>,
) -> anyhow::Result<Duration> {
    let began = Instant::now();
    let lease = match store.claim(&attempt(fresh()), policy).await? {
        Claim::Execute(lease) => lease,
        other => bail!("a fresh key gave {other:?}"),
    };
    let claimed = began.elapsed();
    let settlement = Settlement::Completed(Reply::new(reply));
    match store.settle(&lease, settlement).await? {
        Settled::Recorded => Ok(claimed),
        other @ Settled::Refused(_) => bail!("a lease gave {other:?}"),
    }
}

pub(crate) async fn pairs(
    store: &(impl Store + Clone),
    clients: usize,
    time: Duration,
) -> anyhow::Result<f64> {
    let policy = Arc::new(Policy::default());
    per_second(clients, time, |_| {
        let (store, policy) = (store.clone(), policy.clone());
        move || {
            let (store, policy) = (store.clone(), policy.clone());
            async move { pair(&store, &policy).await.map(drop) }
        }
    })
    .await
}

pub(crate) async fn replays(
    store: &(impl Store + Clone),
    clients: usize,
    time: Duration,
    keys: Keys,
) -> anyhow::Result<f64> {
    let Keys::Settled(keys) = keys;
    let policy = Arc::new(Policy::default());
    per_second(clients, time, |_| {
        let (store, policy) = (store.clone(), policy.clone());
        move || {
            let (store, policy) = (store.clone(), policy.clone());
            async move {
                let number = rand::random_range(1..=keys);
                match store.claim(&attempt(number), &policy).await? {
                    Claim::Replay { .. } => Ok(()),
                    other => bail!("a settled key gave {other:?}"),
                }
            }
        }
    })
    .await
}

/// How often per second so many clients do something, one after the other each.
pub(crate) async fn per_second<F, Fut>(
    clients: usize,
    time: Duration,
    client: impl Fn(usize) -> F,
) -> anyhow::Result<f64>
where
    F: Fn() -> Fut + Send + 'static,
    Fut: Future<Output = anyhow::Result<()>> + Send,
{
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut tasks = JoinSet::new();
    for number in 0..clients {
        let (stop, done, act) = (stop.clone(), done.clone(), client(number));
        tasks.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                act().await?;
                done.fetch_add(1, Ordering::Relaxed);
            }
            anyhow::Ok(())
        });
    }
    // The connections that are still to be opened are not counted.
    tokio::time::sleep(time / 5).await;
    let (began, before) = (Instant::now(), done.load(Ordering::Relaxed));
    tokio::time::sleep(time).await;
    let rate = (done.load(Ordering::Relaxed) - before) as f64 / began.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    for ended in tasks.join_all().await {
        ended?;
    }
    Ok(rate)
}
