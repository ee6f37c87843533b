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
//! # The modules, in the order of a verb's way
//!
//! - `url`, `options`: where the servers are, and how they are spoken to
//! - `store`: the verbs; `script`: what they send; `answer`, `value`: what comes back
//! - `topology`: which server has a record (`slot`), and who is asked when that changes
//! - `server`, `connection`, `tls`: the connections to one server
//! - `near`: copies of records that a tiered store has elsewhere
//! - `news`: hearing of changes that other nodes make
//! - `findings`: how the servers may lose records
//! - `error`: what can go wrong, and what it means

mod answer;
mod connection;
mod error;
mod findings;
mod near;
mod news;
mod options;
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
pub use near::RedisNear;
pub use options::Options;
pub use store::RedisStore;
pub use url::UrlError;
