//! The store that the configuration names, wrapped for a gateway.

use std::sync::Arc;

use semel_embedded::{OpenError, Options};
use semel_store::{CacheLimits, Cached, Clock, MemoryStore, Metered, SteadyClock, Store};

use crate::config::{Config, StoreChoice};

/// Opens the store.
pub(crate) fn open(config: &Config) -> Result<Arc<dyn Store>, OpenError> {
    let clock: Arc<dyn Clock> = Arc::new(SteadyClock::start());
    Ok(match &config.store {
        StoreChoice::Memory => {
            wrapped(MemoryStore::with_clock(clock.clone()), clock, "memory", config)
        }
        StoreChoice::Embedded(path) => {
            let options = Options::new(path).durability(config.durability).clock(clock.clone());
            wrapped(options.open()?, clock, "embedded", config)
        }
    })
}

fn wrapped(
    store: impl Store,
    clock: Arc<dyn Clock>,
    kind: &'static str,
    config: &Config,
) -> Arc<dyn Store> {
    // Not guarded: these stores are in this process and bound their waiting themselves.
    match config.limits.cache_bytes {
        0 => Arc::new(Metered::new(store, kind)),
        bytes => {
            let limits = CacheLimits { bytes, ..CacheLimits::default() };
            Arc::new(Metered::new(Cached::new(store, clock, limits), kind))
        }
    }
}
