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
//! Modules, from the public API down. Each depends only on modules below it, or next to it in one direction:
//!
//! - `engine`: [`Engine`], its entry point, and [`Engine::shutdown`]
//! - `detached`: one attempt from its claim to its answer, in a task of its own (I9, trap 3)
//! - `claiming`: the claim, its retries (trap 13), and the search for a lease whose grant was not acknowledged
//! - `settling`: the outcome is written before it is answered (I6, trap 4), with retries
//! - `waiting`: wake-ups and polls of tasks that wait for another execution
//! - `renewal`: keeps a lease alive (trap 17), and detects its loss
//! - `context`: the state that all attempts of an engine share, and calls of the store with a timeout
//! - `registry`: executions, claims and waiters of this process, so that no attempt claims past one of them
//! - `outage`: wakes holders when a shard of the store is reachable again
//! - `execution`: the handle of the work ([`Execution`]), and panics of the work
//! - `answer`: the answer that a caller gets, and the log of it
//! - `lines`: throttled log lines about single attempts
//! - `error`: the errors that a caller gets
//! - `limits`: [`Limits`] (I10)
//! - `quota`: [`ScopeLimits`], the quota of one scope
//! - `backoff`: pauses between retries
//! - `host`: the spawner of tasks and the random generator ([`Host`]), which simulators replace

mod answer;
mod backoff;
mod claiming;
mod context;
mod detached;
mod engine;
mod error;
mod execution;
mod host;
mod limits;
mod lines;
mod outage;
mod quota;
mod registry;
mod renewal;
mod settling;
mod waiting;

pub use engine::{Engine, ShutdownReport};
pub use error::EngineError;
pub use execution::Execution;
pub use host::{Host, HostTask};
pub use limits::Limits;
pub use quota::{Quota, QuotaPermit, Quotas, Rate, ScopeLimits, TooManyKeys};
pub use semel_store::{Answer, Stored};
