//! Verbs while servers forget, break, migrate and are replaced.

mod alone;
mod cluster;
mod durable;
mod full;
mod late;
mod notifications;
mod relay;
mod replay_cache;
mod replicas;
mod rights;
mod sentinel;
#[cfg(feature = "tls")]
mod tls;
mod waiting;

use std::time::Duration;

use semel_core::{Attempt, Claim, Fingerprint, Lease, Owner, Policy, RecordId, Reply, Settlement};
use semel_redis::{Options, RedisStore};
use semel_store::{Store, StoreError};
use semel_testserver::Redis;

use waiting::eventually;

async fn open(url: &str) -> RedisStore {
    options(url).open().await.expect("a store")
}

fn options(url: &str) -> Options {
    Options::from_url(url).expect("an address").verb_timeout(Duration::from_secs(1))
}

fn attempt(number: u8, owner: u128) -> Attempt {
    let id = RecordId::from_bytes([number; 32]);
    Attempt::new(id, Fingerprint::new([("body", "x")]), Owner::from_u128(owner))
}

async fn claim(store: &RedisStore, number: u8, owner: u128) -> Result<Claim, StoreError> {
    store.claim(&attempt(number, owner), &Policy::default()).await
}

async fn lease(store: &RedisStore, number: u8) -> Lease {
    match claim(store, number, 1).await.expect("an answer") {
        Claim::Execute(lease) => lease,
        other => panic!("{other:?}"),
    }
}

fn paid() -> Settlement {
    Settlement::Completed(Reply::new("paid"))
}

async fn assert_replayed(store: &RedisStore, number: u8) {
    let claim = claim(store, number, 2).await.expect("an answer");
    assert!(matches!(claim, Claim::Replay { .. }), "{number}: {claim:?}");
}

fn replica_of(master: &Redis) -> Redis {
    let replica = Redis::options().setting("replicaof", format!("127.0.0.1 {}", master.port()));
    let replica = replica.start().expect("a replica");
    eventually("it follows", || {
        replica.cli(&["INFO", "replication"]).expect("facts").contains("master_link_status:up")
    });
    replica
}
