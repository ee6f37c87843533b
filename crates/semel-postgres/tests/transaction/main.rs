//! Same transaction, on a real server: the work, its events and its record commit together, once.
#![expect(clippy::unwrap_used, reason = "a panic is how tests fail")]

mod agrees;
mod apart;
mod bank;
mod beside_the_store;
mod conflicts;
mod durability;
mod failed;
mod gate;
mod in_flight;
mod lost;
mod nothing_left;
mod once;
mod overtaken;
mod own_transaction;
mod permits;
mod relay;
mod retries;
#[path = "../support/mod.rs"]
mod support;
mod unresponsive;
#[cfg(feature = "sqlx")]
mod with_sqlx;
