//! Makes a piece of work take effect once, over any store.
//!
//! [`Engine::once`] drives the protocol of `semel_core`: **claim → execute detached → renew at a
//! third of the lease → settle or release → answer**. It knows nothing of HTTP.
//!
//! ```
//! use semel_core::{Fingerprint, Key, Outcome, Policy, RecordId, Reply, Scope};
//! use semel_engine::{Answer, Engine};
//! use semel_store::MemoryStore;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let engine = Engine::new(MemoryStore::new());
//! let policy = Policy::default();
//!
//! let scope = Scope::new([("who", "customer-7"), ("what", "POST /v1/charges")]);
//! let id = RecordId::new("shop", &scope, &Key::parse("order-12345")?);
//! let fingerprint = Fingerprint::new([("body", r#"{"amount":100}"#)]);
//!
//! // The first attempt charges the card ...
//! let first = engine.attempt(id, fingerprint);
//! let charged = engine
//!     .once(first, &policy, |_execution| async {
//!         Outcome::Completed(Reply::new("charge ch_1"))
//!     })
//!     .await?;
//! assert!(matches!(charged, Answer::Executed { .. }));
//!
//! // ... and a retry gets the same bytes, without charging again.
//! let retry = engine.attempt(id, fingerprint);
//! let again = engine
//!     .once(retry, &policy, |_execution| async { unreachable!("it was charged") })
//!     .await?;
//! assert!(matches!(again, Answer::Replayed { .. }));
//! assert_eq!(again.reply(), charged.reply());
//! # Ok(())
//! # }
//! ```
//!
//! Where what is decided:
//!
//! - `engine`: [`Engine`], the way in, and the way out ([`Engine::shutdown`])
//! - `detached`: one attempt from its claim to its answer, in a task of its own (I9, trap 3)
//! - `claiming`: the claim, repeated when its answer was lost (trap 13), and its undoing
//! - `execution`: what the work is told ([`Execution`]), and what its panic means
//! - `renewal`: the lease kept alive (trap 17), and its loss noticed
//! - `settling`: the outcome written before it is told (I6, trap 4), for as long as it takes
//! - `waiting`: duplicates that wait for the outcome of another attempt
//! - `registry`: what this process executes and settles, so that none of its attempts claims past it
//! - `outage`: holders woken at once when the store is back
//! - `limits`: [`Limits`] of all this (I10)
//! - `backoff`: how long to pause between two tries
//! - `host`: what runs the tasks, and where chance comes from ([`Host`]), for simulators to replace
//! - `answer`, `error`: what a caller gets

mod answer;
mod backoff;
mod claiming;
mod detached;
mod engine;
mod error;
mod execution;
mod host;
mod limits;
mod mistakes;
mod outage;
mod registry;
mod renewal;
mod settling;
mod waiting;

pub use answer::{Answer, Stored};
pub use engine::{Engine, ShutdownReport};
pub use error::EngineError;
pub use execution::Execution;
pub use host::{Host, HostTask};
pub use limits::Limits;
