//! A gateway that makes retries safe, in front of any HTTP API.
//!
//! The way of a request: `server::listener` accepts its connection and hands it to a thread of
//! `server::workers`; `server::connection` speaks HTTP on it; `server::entry` checks the request and makes its headers
//! fit to pass on; the layer of `semel_http` claims its key, or answers from the record; `proxy` passes it to the
//! upstream on a pooled connection.
//!
//! The modules, each of which uses only those above it:
//!
//! - `metric`, `limit`, `tls`, `forwarded`: what several of them need
//! - `config`: the configuration, with all its faults at once
//! - `descriptors`: how many file descriptors there are, and what they are used for
//! - `tokens`: the keys by which tokens are verified, refreshed while the gateway serves
//! - `store`: the store that the configuration names, with its wrappers
//! - `client`: a connection of a client: its stream, time limits and bodies
//! - `failure`: why the gateway answers in place of the upstream, and with which problem
//! - `proxy`: connections to the upstream, and the exchanges on them
//! - `pipeline`: the layer around the proxy, as configured; a reload replaces it
//! - `server`: the listener, the threads, and HTTP on connections of clients
//! - `admin`: `/health`, `/ready`, `/metrics`
//! - `gateway`: everything put together; reload and shutdown

pub mod admin;
mod client;
pub mod config;
pub mod descriptors;
mod error;
mod failure;
mod forwarded;
mod gateway;
mod limit;
mod metric;
mod pipeline;
mod proxy;
mod server;
mod store;
mod tls;
mod tokens;

pub use error::StartError;
pub use forwarded::Forwarded;
pub use gateway::{Gateway, ShutdownReport};
pub use tls::TlsError;
pub use tokens::{FetchError, KeysFault, Unreadable};
