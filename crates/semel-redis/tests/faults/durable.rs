//! Promoted servers, and whether they are durable enough.

use semel_store::{Store as _, StoreError};
use semel_testserver::{Redis, RedisCluster};

use crate::options;
use crate::waiting::eventually_async;

/// Regression: a replica has settings of its own, and a promotion did not check them.
#[tokio::test]
async fn a_promoted_replica_that_may_lose_records_is_not_healthy() {
    let settings = Redis::options()
        .setting("appendonly", "yes")
        .setting("appendfsync", "always")
        .setting("cluster-node-timeout", "2000");
    let cluster = RedisCluster::start(1, 1, &settings).expect("a cluster");
    let replica = &cluster.servers()[1];
    replica.cli(&["CONFIG", "SET", "maxmemory", "1gb"]).expect("a limit");
    replica.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).expect("a policy");
    let open = |durable| options(&cluster.url()).wait_replicas(1).require_durable(durable).open();
    let (strict, lax) = (open(true).await.expect("a store"), open(false).await.expect("a store"));
    eventually_async("its master is durable", async || strict.health().await.is_ok()).await;
    replica.cli(&["CLUSTER", "FAILOVER"]).expect("a failover");
    eventually_async("it is refused", async || match strict.health().await {
        Err(StoreError::Misconfigured { what }) => {
            assert!(what.contains("not durable enough"), "{what}");
            assert!(what.contains("maxmemory-policy noeviction"), "{what}");
            true
        }
        _ => false,
    })
    .await;
    eventually_async("it is found", async || {
        // The topology is refreshed by a verb.
        let _ = lax.health().await;
        let findings = lax.findings().await.unwrap_or_default();
        findings.iter().any(|finding| finding.code() == "redis_evicts")
    })
    .await;
    // Where durability is not required, it is only logged.
    eventually_async("it is well", async || lax.health().await.is_ok()).await;
    replica.cli(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]).expect("a cure");
    eventually_async("it is mended", async || strict.health().await.is_ok()).await;
}
