//! A gateway that makes retries safe, in front of any HTTP API.
//!
//! A request's way: `server::listener` lets its connection in and hands it to a thread of
//! `server::workers`; `server::connection` speaks HTTP with it; `server::entry` checks the request
//! and makes its headers fit to pass on; the layer of `semel_http` decides what becomes of it;
//! `proxy` passes it to the upstream on a pooled connection.
//!
//! - `config`: the configuration, with all its faults at once
//! - `gateway`: everything put together; reload and shutdown
//! - `store`: the store that the configuration names, wrapped
//! - `admin`: `/health`, `/ready`, `/metrics`

pub mod admin;
pub mod config;
mod error;
mod gateway;
mod proxy;
mod server;
mod store;

pub use error::StartError;
pub use gateway::{Farewell, Gateway};
pub use proxy::Forwarded;
pub use server::tls::TlsError;
