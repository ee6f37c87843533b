//! Clients that claim and settle, and record the answers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel_core::{Attempt, Claim, Fingerprint, Lease, Owner, Policy, RecordId, Reply, Settlement};
use semel_postgres::PostgresStore;
use semel_store::{Settled, Store, StoreError};
use tokio::task::JoinSet;

/// How often each key is claimed, by different owners at once.
const DUPLICATES: u64 = 3;

pub(crate) struct Load {
    store: PostgresStore,
    stopping: AtomicBool,
    next: AtomicU64,
    done: AtomicU64,
    unsure: AtomicU64,
    refused: AtomicU64,
    /// What was acknowledged as recorded, by key.
    recorded: Mutex<HashMap<u64, Vec<Settlement>>>,
    /// How many leases were granted, by key.
    granted: Mutex<HashMap<u64, Vec<(u64, Owner)>>>,
}

/// What was seen.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Outcomes that were acknowledged.
    pub(crate) recorded: usize,
    /// Verbs whose effect is unknown.
    pub(crate) unsure: u64,
    /// Verbs that surely did nothing.
    pub(crate) refused: u64,
}

fn policy() -> Policy {
    // No lease may be taken over: a second lease for a key would be the store's mistake.
    let builder = Policy::builder().lease(Duration::from_mins(10));
    builder.ttl(Duration::from_hours(1)).build().expect("a policy")
}

fn id(key: u64) -> RecordId {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&key.to_be_bytes());
    RecordId::from_bytes(bytes)
}

fn fingerprint(key: u64) -> Fingerprint {
    Fingerprint::new([("key", key.to_be_bytes())])
}

impl Load {
    pub(crate) fn new(store: PostgresStore) -> Self {
        Self {
            store,
            stopping: AtomicBool::new(false),
            next: AtomicU64::new(0),
            done: AtomicU64::new(0),
            unsure: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            recorded: Mutex::default(),
            granted: Mutex::default(),
        }
    }

    pub(crate) fn start(self: &Arc<Self>, clients: usize) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        for _ in 0..clients {
            let load = self.clone();
            tasks.spawn(async move {
                while !load.stopping.load(Ordering::Relaxed) {
                    let number = load.next.fetch_add(1, Ordering::Relaxed);
                    load.one(number / DUPLICATES, number).await;
                    load.done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        tasks
    }

    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Blocks until the clients have got on.
    pub(crate) fn wait_for_progress(&self) {
        let until = self.done.load(Ordering::Relaxed) + 100;
        for _ in 0..6_000 {
            if self.done.load(Ordering::Relaxed) >= until {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the store does not recover: {:?}", self.tally());
    }

    /// One attempt on a key, from its claim to its settle, each repeated until there is an answer.
    async fn one(&self, key: u64, number: u64) {
        let attempt = Attempt::new(id(key), fingerprint(key), Owner::from_u128(rand::random()));
        let policy = policy();
        let Some(claim) = self.insist(|| self.store.claim(&attempt, &policy)).await else { return };
        let Claim::Execute(lease) = claim else { return };
        let grant = (lease.fence().get(), lease.owner());
        self.granted.lock().expect("no panic").entry(key).or_default().push(grant);
        self.settle(key, &lease, Settlement::Completed(Reply::new(number.to_string()))).await;
    }

    async fn settle(&self, key: u64, lease: &Lease, settlement: Settlement) {
        let settled = self.insist(|| self.store.settle(lease, settlement.clone())).await;
        match settled {
            Some(Settled::Recorded) => {
                self.recorded.lock().expect("no panic").entry(key).or_default().push(settlement);
            }
            Some(Settled::Refused(refusal)) => panic!("key {key}: refused with {refusal:?}"),
            None => {}
        }
    }

    /// Repeats a verb until the store answers; gives up only at the end of the load.
    async fn insist<'a, T>(
        &'a self,
        ask: impl Fn() -> semel_store::StoreFuture<'a, T>,
    ) -> Option<T> {
        loop {
            let error = match ask().await {
                Ok(answer) => return Some(answer),
                Err(error) => error,
            };
            assert!(error.is_passing(), "{error:?}");
            let count = if error.maybe_applied() { &self.unsure } else { &self.refused };
            count.fetch_add(1, Ordering::Relaxed);
            if self.stopping.load(Ordering::Relaxed) {
                return None;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Checks the store against its acknowledgements.
    pub(crate) async fn check(&self) -> Tally {
        let granted = std::mem::take(&mut *self.granted.lock().expect("no panic"));
        for (key, leases) in &granted {
            assert_eq!(leases.len(), 1, "I1: key {key} was leased as {leases:?}");
        }
        let recorded = std::mem::take(&mut *self.recorded.lock().expect("no panic"));
        let mut tally = self.tally();
        tally.recorded = recorded.len();
        for (key, outcomes) in recorded {
            assert_eq!(outcomes.len(), 1, "I2: key {key} was settled as {outcomes:?}");
            let attempt = Attempt::new(id(key), fingerprint(key), Owner::from_u128(rand::random()));
            let claim = self.store.claim(&attempt, &policy()).await.expect("a claim");
            let Claim::Replay { settlement, .. } = claim else {
                panic!("I6: key {key} was acknowledged, and is now {claim:?}");
            };
            assert_eq!(settlement, outcomes[0], "I4: key {key}");
        }
        assert!(tally.recorded > 100, "{tally:?}");
        tally
    }

    fn tally(&self) -> Tally {
        Tally {
            recorded: 0,
            unsure: self.unsure.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }
}

/// Whether an error leaves the verb's effect unknown.
pub(crate) fn is_unsure<T>(answer: &Result<T, StoreError>) -> bool {
    matches!(answer, Err(error) if error.maybe_applied())
}
