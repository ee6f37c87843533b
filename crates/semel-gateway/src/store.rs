//! The store that the configuration names, wrapped for a gateway.

#[cfg(any(feature = "postgres", feature = "redis"))]
mod shared;

use std::sync::Arc;

use semel_embedded::Options;
#[cfg(all(feature = "postgres", feature = "redis"))]
use semel_redis::RedisNear;
#[cfg(all(feature = "postgres", feature = "redis"))]
use semel_store::Tiered;
use semel_store::{CacheLimits, Cached, Clock, MemoryStore, Metered, SteadyClock, Store};

use crate::config::{Config, StoreChoice};
use crate::error::StartError;

/// Opens the store. What it does in the background it does on the present runtime, which must live
/// as long as the store.
#[cfg_attr(
    not(any(feature = "postgres", feature = "redis")),
    expect(clippy::unused_async, reason = "only a store on a server has anything to wait for")
)]
pub(crate) async fn open(config: &Config) -> Result<Arc<dyn Store>, StartError> {
    // Stores in this process have this clock themselves. They are not guarded: they bound their
    // waiting themselves, and there is no network that could be down.
    let clock: Arc<dyn Clock> = Arc::new(SteadyClock::start());
    Ok(match &config.store {
        StoreChoice::Memory => {
            wrapped(MemoryStore::with_clock(clock.clone()), clock, "memory", config)
        }
        StoreChoice::Embedded(path) => {
            let options = Options::new(path).durability(config.durability).clock(clock.clone());
            wrapped(options.open()?, clock, "embedded", config)
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
            let near = RedisNear::connect(near.options().clone(), &named);
            wrapped(Tiered::new(near, truth, clock.clone()), clock, "tiered", config)
        }
    })
}

/// Puts the cache and the meter around a store, which is guarded by now if it needs to be.
///
/// The order, from the inside out:
///
/// - *guarded* is next to the store, so that its breaker hears of every failure of the store, and of
///   nothing else.
/// - *cached* is around the guard, so that what is known to be settled is replayed without asking,
///   and also while the breaker is open.
/// - *metered* is around both: it measures what requests see, the breaker's refusals included.
fn wrapped(
    store: impl Store,
    clock: Arc<dyn Clock>,
    kind: &'static str,
    config: &Config,
) -> Arc<dyn Store> {
    match config.limits.cache_bytes {
        0 => Arc::new(Metered::new(store, kind)),
        bytes => {
            let limits = CacheLimits { bytes, ..CacheLimits::default() };
            Arc::new(Metered::new(Cached::new(store, clock, limits), kind))
        }
    }
}
