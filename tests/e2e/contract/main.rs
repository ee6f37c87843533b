//! The HTTP contract (`docs/reference/http.md`) of the real binary, over real sockets and a real store.
//!
//! Every row of the contract's table, every row of "what a crash means", and every trap that HTTP
//! touches has a test here; their comments name the row, the trap or the invariant.
//!
//! The store is embedded, unless `SEMEL_CONTRACT_STORE` is `postgres` or `redis`: then most of it runs on
//! such a server. What only a shared store can show is in `shared`, `postgres` and `redis`, and
//! always runs there.

mod abandoned;
mod admin;
mod concurrency;
mod cookies;
mod crashes;
mod drain;
mod fingerprints;
mod forwarding;
mod hang_ups;
mod in_flight;
mod isolation;
mod keys;
mod limits;
mod logs;
mod methods;
mod mismatches;
mod outcomes;
mod own_work;
mod paths;
#[cfg(feature = "postgres")]
mod postgres;
mod quotas;
#[cfg(feature = "redis")]
mod redis;
mod refusals;
mod reload;
mod replays;
mod reply_sizes;
mod retention;
mod scopes;
mod shadow;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod shared;
mod store_loss;
mod streaming;
mod support;
#[cfg(all(feature = "postgres", feature = "redis"))]
mod tiered;
mod tokens;
mod upstream_failures;
