//! Semel on Redis: the fast store that a fleet shares, on one server or a cluster.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = semel_redis::Options::from_url("redis://cache.internal")?.open().await?;
//! # drop(store);
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//!
//! Each verb is one call of a script (`lua/`), which reads the record, decides and writes where the
//! record is, by the server's clock, in one round trip. A record is one key, which expires by itself.
//!
//! # The modules, in the order in which a verb passes them
//!
//! - `url`, `options`: server addresses and connection settings
//! - `store`: the verbs; `script`: the scripts and their calls; `answer`, `value`: their replies
//! - `topology`: the server of each record (`slot`), refreshed when it changes
//! - `server`, `connection`, `wire`, `tls`: the connections to one server
//! - `replay_cache`: copies of records that a tiered store has elsewhere
//! - `notifications`: subscriptions to the changes that other nodes make
//! - `findings`: server settings that may lose records
//! - `error`: failures and their meaning for the caller

mod answer;
mod connection;
mod error;
mod findings;
mod notifications;
mod options;
mod replay_cache;
mod script;
mod server;
mod slot;
mod store;
mod tls;
mod topology;
mod url;
mod value;
mod wire;

pub use error::OpenError;
pub use findings::{Finding, Risk};
pub use options::Options;
pub use replay_cache::RedisReplayCache;
pub use store::RedisStore;
pub use url::UrlError;
