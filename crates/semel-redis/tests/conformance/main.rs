//! The store keeps the contract on a real server and on a real cluster.

mod machines;

use std::time::Duration;

use semel_redis::RedisStore;
use semel_store::conformance::{Fixture, FixtureClock};
use semel_store::store_conformance;
use semel_testserver::{Redis, RedisCluster};

use machines::{Clocked, Machine};

impl<M: Machine> Fixture for Clocked<M> {
    type Store = RedisStore;
    const DURABLE: bool = true;
    const CLOCK: FixtureClock = FixtureClock::Manual;
    const UNIT: Duration = Duration::from_secs(1);
    // Keys expire by themselves.
    const SWEPT_BY_CALLER: bool = false;

    async fn make() -> Self {
        Self::make().await
    }

    fn store(&self) -> &RedisStore {
        &self.store
    }

    async fn advance(&self, duration: Duration) {
        self.clock().advance(duration).expect("a clock");
    }

    async fn reopen(self) -> Self {
        self.reopen().await
    }
}

store_conformance!(one, Clocked<Redis>);
store_conformance!(cluster, Clocked<RedisCluster>);
