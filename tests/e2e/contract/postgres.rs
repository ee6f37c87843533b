//! Gateways that share a store on a real PostgreSQL server.

mod migrate;
mod roles;
mod standby;
mod start;
