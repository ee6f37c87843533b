//! The conformance suite for the memory store, and for every wrapper around it.

mod fixtures;

use fixtures::{
    CachedMemory, Dynamic, GuardedMemory, Memory, MeteredMemory, Scripted, Stacked, TickingMemory,
    TieredMemory, Wrapped,
};
use semel_store::store_conformance;

store_conformance!(memory, Memory);
store_conformance!(memory_within_limits_on_a_running_clock, TickingMemory);
store_conformance!(dynamic, Wrapped<Dynamic>);
store_conformance!(cached, Wrapped<CachedMemory>);
store_conformance!(guarded, Wrapped<GuardedMemory>);
store_conformance!(tiered, Wrapped<TieredMemory>);
store_conformance!(metered, Wrapped<MeteredMemory>);
store_conformance!(scripted, Wrapped<Scripted>);
store_conformance!(stacked, Wrapped<Stacked>);
