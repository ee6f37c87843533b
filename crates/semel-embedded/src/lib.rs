//! The default store of Semel: durable records in a directory, for one process.
//!
//! ```
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("store");
//! let store = semel_embedded::Options::new(path).open()?;
//! # drop(store);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it works
//!
//! The records live in an engine of their own ([fjall](https://docs.rs/fjall), a log-structured
//! merge tree). Callers decide their claims, renewals and settles with `semel_core`, one after the
//! other under a lock, and join the group that gathers. One committer thread writes each group as
//! one batch and syncs it, and only then is anyone answered; meanwhile the next group gathers. So
//! one sync serves many callers. Replays, mismatches and duplicates in flight only read.
//!
//! # What it promises
//!
//! With [`Durability::Power`], what was acknowledged survives a power cut; with
//! [`Durability::Process`], the death of the process. A torn end of the log, which any crash may
//! leave, is cut off: nothing in it was acknowledged. Damage anywhere else is refused by name
//! before the engine touches a file. A full disk is an error while it lasts.

mod check;
mod codec;
mod committer;
mod database;
mod desk;
mod directory;
mod error;
mod fate;
mod keeper;
mod options;
mod outage;
mod recent;
mod room;
mod store;
mod sweeper;
mod times;
mod tuning;
mod turn;

pub use error::OpenError;
pub use options::{Durability, Options};
pub use store::EmbeddedStore;
