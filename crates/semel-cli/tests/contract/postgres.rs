//! Gateways that share a store on a real PostgreSQL server.

mod clocks;
mod crashes;
mod fleet;
mod migrate;
mod outages;
mod roles;
mod start;
