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
//! The records live in a database of their own ([fjall](https://docs.rs/fjall), a log-structured
//! merge tree). Callers decide their claims, renewals and settles with `semel_core`, one after the
//! other under a lock, and join the open batch. A committer thread writes each batch as a whole and
//! syncs it, and only then are its operations answered; meanwhile the next batch fills. So one sync
//! serves many callers (group commit). Replays, mismatches and duplicates in flight only read.
//!
//! # What it promises
//!
//! With [`Durability::Power`], what was acknowledged survives a power cut; with
//! [`Durability::Process`], the death of the process. A torn end of the log, which any crash may
//! leave, is cut off: nothing in it was acknowledged. Damage anywhere else is refused by name
//! before fjall touches a file. A full disk is an error while it lasts.

mod check;
mod codec;
mod commit;
mod database;
mod directory;
mod error;
mod mark_writer;
mod options;
mod outage;
mod storage;
mod store;
mod sweeper;
mod thread;
mod times;
mod tuning;

pub use error::OpenError;
pub use options::{Durability, Options};
pub use store::EmbeddedStore;
