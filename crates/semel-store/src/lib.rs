//! What Semel asks of a store, and what every store can share.
//!
//! - [`Store`] is the contract: six verbs and a health check.
//! - [`MemoryStore`] is the reference, for tests and for work that need not survive its process.
//! - [`Cached`], [`Guarded`], [`Metered`] and [`Tiered`] wrap any store and are stores themselves.
//! - [`RecordMap`] is the map that they keep records in while these are in memory.
//! - [`conformance`] (feature `conformance`) holds a store to the contract: `store_conformance!`.
//! - [`scripted`] (feature `scripted`) is a store that fails on command, for tests of its users.

mod answers;
mod cached;
mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod guarded;
mod memory;
mod metered;
mod record_map;
#[cfg(feature = "scripted")]
pub mod scripted;
mod server_clock;
mod settled_copy;
mod store;
mod tiered;
#[cfg(test)]
mod unruly;
mod watch;

pub use answers::{FromTransition, Health, Released, Renewed, Settled, Swept};
pub use cached::{CacheLimits, Cached};
pub use clock::{Clock, ManualClock, SteadyClock};
pub use error::StoreError;
pub use guarded::{BreakerState, Guard, Guarded};
pub use memory::MemoryStore;
pub use metered::{Metered, metric};
pub use record_map::{IdHash, IdHasher, RecordMap};
pub use server_clock::ServerClock;
pub use settled_copy::SettledCopy;
pub use store::{Store, StoreFuture};
pub use tiered::{Near, Tiered};
pub use watch::{Told, Watch};
