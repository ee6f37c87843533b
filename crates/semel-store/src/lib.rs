//! The contract of a store, and the code that stores share.
//!
//! - [`Store`] is the contract: six verbs, a health check, and three optional methods that only read.
//! - [`MemoryStore`] is the reference, for tests and for work that need not survive its process.
//! - [`Cached`], [`Guarded`], [`Metered`] and [`Tiered`] wrap any store and are stores themselves.
//! - [`RecordMap`] is the map of records in memory.
//! - [`conformance`] (feature `conformance`) tests a store against the contract: `store_conformance!`.
//! - [`scripted`] (feature `scripted`) is a store that fails on command, for the tests of code that uses a store.

mod answers;
mod attempt_answer;
mod cached;
mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod exhaustion;
#[cfg(test)]
mod faulty;
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
mod watch;

pub use answers::{FromTransition, Health, Released, Renewed, Settled, Swept};
pub use attempt_answer::{Answer, Stored};
pub use cached::{CacheLimits, Cached};
pub use clock::{Clock, MachineClock, ManualClock, SteadyClock};
pub use error::StoreError;
pub use exhaustion::{has_descriptors, is_exhausted, is_exhaustion, lacks_descriptors};
pub use guarded::{BreakerState, Guard, Guarded};
pub use memory::{MemoryLimits, MemoryStore};
pub use metered::{Metered, metric};
pub use record_map::{IdHash, IdHasher, RecordMap};
pub use server_clock::ServerClock;
pub use settled_copy::SettledCopy;
pub use store::{Store, StoreFuture};
pub use tiered::{ReplayCache, Tiered};
pub use watch::{Watch, WatchState};
