//! Semel on PostgreSQL: the durable store that a fleet shares.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use semel_postgres::{Options, migrate};
//!
//! let options = Options::from_url("postgres://shop@db.internal/shop?sslmode=verify-full")?;
//! migrate(&options).await?; // once per version: `semel migrate` does the same
//! let store = options.open().await?;
//! # drop(store);
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//!
//! Each verb is one call of a function in the database (`sql/`), so it is decided where the record is,
//! under the row's lock, by the server's clock, in one round trip. Verbs share a few pipelined
//! connections (`pool`); the server makes the commits of several connections durable together.
//!
//! # What it promises
//!
//! An acknowledged write survives a crash of the server: `synchronous_commit` is raised to `on` where it
//! is lower, and a server with `fsync = off` or an unlogged table is refused. What a failover to a
//! replica keeps depends on the replication: only synchronous replication keeps everything.
//!
//! # The modules, in the order in which a verb passes them
//!
//! - `url`, `options`, `tls`: server addresses and connection settings
//! - `schema`, `schema_name`: the tables and functions, and their versions ([`migrate`])
//! - `connect`, `pool`: pipelined connections, and the choice of one for each verb
//! - `store`: the verbs; `row`: parameters and rows; `error`: failures and their meaning for the caller
//! - `sweeper`: deletes expired records, one node at a time
//! - [`transaction`]: the same-transaction mode, which needs no store

mod connect;
mod error;
mod options;
mod pool;
mod row;
mod schema;
mod schema_name;
mod store;
mod sweeper;
mod tls;
pub mod transaction;
mod url;

pub use error::OpenError;
pub use options::Options;
pub use schema::{Migrated, migrate, migration_sql};
pub use store::PostgresStore;
pub use url::UrlError;
