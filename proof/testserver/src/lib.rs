//! Starts real servers for tests, benchmarks and examples. Linux only.
//!
//! - [`Postgres`] is a private `PostgreSQL` server that can be stopped, killed and frozen.
//! - [`Redis`] is a private Redis server of the same kind, and [`RedisCluster`] several that share keys.
//! - [`Clock`] is a wall clock for such a server, which tests can set.
//! - `SigningKey` (feature `issuer`) makes keys and tokens as an issuer of tokens does.
//! - [`Mount`] is a file system in memory.
//! - [`spawn`] starts other programs that end with this process ([`killed_with_us`]).
//! - [`NoDescriptors`] takes all file descriptors from a process.
//!
//! A server ends when it is dropped. If it cannot be dropped, because it is held in a `static` or because
//! the process that holds it is killed, it ends with that process all the same: the kernel signals it
//! (`supervisor`), and a separate process cleans up (`cleanup`).

mod account;
mod certificate;
mod cleanup;
mod clock;
mod descriptors;
mod directory;
mod error;
#[cfg(feature = "issuer")]
mod issuer;
mod mark;
mod mount;
mod port;
mod postgres;
mod process;
mod redis;
mod run;
mod supervisor;
mod token;
mod waiting;

pub use clock::Clock;
pub use descriptors::NoDescriptors;
pub use error::Error;
#[cfg(feature = "issuer")]
pub use issuer::{SigningKey, base64url, key_set, seconds_from_now};
pub use mount::Mount;
pub use postgres::{Options, Postgres};
pub use redis::{Redis, RedisCluster, RedisOptions};
pub use supervisor::{killed_with_us, spawn};
