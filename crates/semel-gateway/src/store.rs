//! The store that the configuration names, wrapped for a gateway.

#[cfg(any(feature = "postgres", feature = "redis"))]
mod shared;

use std::sync::Arc;
use std::time::Duration;

use semel_embedded::Options;
#[cfg(all(feature = "postgres", feature = "redis"))]
use semel_redis::RedisReplayCache;
#[cfg(all(feature = "postgres", feature = "redis"))]
use semel_store::Tiered;
use semel_store::{
    CacheLimits, Cached, Clock, MemoryLimits, MemoryStore, Metered, SteadyClock, Store,
};

use crate::config::{Config, StoreChoice};
use crate::error::StartError;

/// An open store.
#[derive(Clone)]
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Store>,
    /// Its clock: the store's own, or one that follows the server's.
    pub(crate) clock: Arc<dyn Clock>,
}

/// How often expired records are deleted from memory (I10).
const MEMORY_SWEEP: Duration = Duration::from_mins(1);

/// The limits of the store in memory (I10). Beyond them new keys are refused.
const MEMORY_LIMITS: MemoryLimits =
    MemoryLimits { records_max: 1_000_000, reply_bytes_max: 512 << 20 };

/// Opens the store; the embedded one keeps at most `tables_max` files open. Its background work runs on the current
/// runtime, which must live as long as the store.
#[cfg_attr(
    not(any(feature = "postgres", feature = "redis")),
    expect(clippy::unused_async, reason = "only a store on a server has anything to wait for")
)]
pub(crate) async fn open(config: &Config, tables_max: usize) -> Result<Opened, StartError> {
    // Stores in this process are not guarded: they limit their waits themselves, and depend on no network.
    Ok(match &config.store {
        StoreChoice::Memory => {
            let clock: Arc<dyn Clock> = Arc::new(SteadyClock::start());
            let store = MemoryStore::with_limits(clock.clone(), MEMORY_LIMITS);
            store.sweep_every(MEMORY_SWEEP);
            wrapped(store, clock, "memory", config)
        }
        StoreChoice::Embedded(path) => {
            let options = Options::new(path).durability(config.durability);
            let store = options.open_tables_max(tables_max).open()?;
            let clock = store.clock();
            wrapped(store, clock, "embedded", config)
        }
        #[cfg(feature = "postgres")]
        StoreChoice::Postgres(address) => {
            let options = address.options().clone().verb_timeout(shared::VERB_TIMEOUT);
            let (store, clock) = shared::guarded(options.open().await?);
            wrapped(store, clock, "postgres", config)
        }
        #[cfg(feature = "redis")]
        StoreChoice::Redis(address) => {
            let mut options = address.options().clone().verb_timeout(shared::VERB_TIMEOUT);
            if let Some(replicas) = config.wait_replicas {
                options = options.wait_replicas(replicas);
            }
            let store = options.require_durable(config.require_durable).open().await?;
            let (store, clock) = shared::guarded(store);
            wrapped(store, clock, "redis", config)
        }
        #[cfg(all(feature = "postgres", feature = "redis"))]
        StoreChoice::Tiered { near, truth } => {
            let options = truth.options().clone().verb_timeout(shared::VERB_TIMEOUT);
            let named = options.to_string();
            let (truth, clock) = shared::guarded(options.open().await?);
            let near = RedisReplayCache::connect(near.options().clone(), &named);
            wrapped(Tiered::new(near, truth, clock.clone()), clock, "tiered", config)
        }
    })
}

/// Puts the cache and the meter around a store, which is already guarded if it needs to be.
///
/// The order, from the inside out:
///
/// - *guarded* is next to the store, so that its breaker counts every failure of the store, and nothing else.
/// - *cached* is around the guard, so that a cached outcome is replayed without a call to the store, also while the
///   breaker is open.
/// - *metered* is around both: it measures what requests experience, including refusals of the breaker.
fn wrapped(
    store: impl Store,
    clock: Arc<dyn Clock>,
    kind: &'static str,
    config: &Config,
) -> Opened {
    let store: Arc<dyn Store> = match config.limits.cache_bytes {
        0 => Arc::new(Metered::new(store, kind)),
        bytes => {
            let limits = CacheLimits { bytes, ..CacheLimits::default() };
            Arc::new(Metered::new(Cached::new(store, clock.clone(), limits), kind))
        }
    };
    Opened { store, clock }
}

#[cfg(test)]
mod tests {
    use semel_core::{Attempt, Fingerprint, Owner, Policy, RecordId};

    use super::*;
    use crate::config::Flags;

    /// A gateway on `memory:` must not keep expired records without end (I10).
    #[tokio::test(start_paused = true)]
    async fn a_memory_store_is_swept_in_the_background() {
        let text = "upstream = \"http://127.0.0.1:3000\"\nstore = \"memory:\"\n";
        let config = Config::load(Some(("semel.toml", text)), [], &Flags::default()).unwrap();
        let store = open(&config, 1).await.unwrap().store;
        let (lease, ttl) = (Duration::from_millis(10), Duration::from_millis(20));
        let policy = Policy::builder().lease(lease).ttl(ttl).build().unwrap();
        let fingerprint = Fingerprint::from_bytes([1; 32]);
        let attempt = Attempt::new(RecordId::from_bytes([1; 32]), fingerprint, Owner::from_u128(1));
        store.claim(&attempt, &policy).await.unwrap();
        // The store's clock is real, the pauses between sweeps are not.
        while store.inspect(attempt.id()).await.unwrap().is_some() {
            std::thread::sleep(Duration::from_millis(1));
        }
        tokio::time::sleep(MEMORY_SWEEP * 2).await;
        assert_eq!(store.sweep(usize::MAX).await.unwrap().deleted, 0, "it was left to us");
    }
}
