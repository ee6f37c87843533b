//! Writes that are idempotent by themselves: no key, no record, nothing that expires.
//!
//! - [`business_key`]: what is made has a name of its own, and is made once under it
//! - [`upsert`]: what is said is how things are, not how they change
//! - [`version`]: what is changed is what was read, or nothing is (`ETag`, `If-Match`)
//!
//! Each is explained, with its limits, in `docs/guides/natural-idempotency.md`; the tests show them
//! on a real server, and the mistakes that they avoid.

pub mod business_key;
pub mod upsert;
pub mod version;

use tokio_postgres::{Client, Error};

/// Makes the tables of all three.
pub async fn make_tables(client: &Client) -> Result<(), Error> {
    client.batch_execute(include_str!("tables.sql")).await
}
