//! Starts real servers for tests, benchmarks and examples. Linux only.
//!
//! - [`Postgres`] is a private `PostgreSQL` server that can be stopped, killed and frozen.
//! - [`Redis`] is a private Redis server of the same kind, and [`RedisCluster`] several that share keys.
//! - [`Clock`] is a wall clock for such a server, which tests can set.
//! - [`Mount`] is a file system in memory.
//!
//! A server ends when it is dropped. If it cannot be dropped, because it is held in a `static` or
//! because the process that holds it is killed, it ends with that process all the same: the kernel
//! tells it (`keeper`), and a process of its own clears up (`janitor`).

mod account;
mod certificate;
mod clock;
mod error;
mod home;
mod janitor;
mod keeper;
mod mark;
mod mount;
mod patience;
mod port;
mod postgres;
mod process;
mod redis;
mod run;
mod token;

pub use clock::Clock;
pub use error::Error;
pub use mount::Mount;
pub use postgres::{Options, Postgres};
pub use redis::{Redis, RedisCluster, RedisOptions};
