//! The patterns, and the mistakes that they avoid, on a real server.

mod business_key;
mod database;
mod upsert;
mod version;
