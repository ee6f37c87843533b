//! An idempotent upsert.
//!
//! A warehouse says how many of an article are in stock, with a version that rises with each change.
//! A message that comes twice sets the same values twice. One that comes late is older than what is
//! there, and is left out.

use tokio_postgres::{Client, Error};

/// How many there are, as of some version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stock {
    /// Which article.
    pub article: String,
    /// How many there are: not how many came or went.
    pub quantity: i64,
    /// Counted by the sending system, per article.
    pub version: i64,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// It is what is known now.
    Applied,
    /// The same version, or a later one, was there already.
    Outdated,
}

/// The guard is in the statement itself: a read before a separate write can be overtaken.
const SET: &str = "INSERT INTO stock (article, quantity, version) VALUES ($1, $2, $3)
                   ON CONFLICT (article) DO UPDATE
                   SET quantity = excluded.quantity, version = excluded.version
                   WHERE stock.version < excluded.version";

/// Sets how many there are, unless something newer is known.
pub async fn set(client: &Client, stock: &Stock) -> Result<Set, Error> {
    let Stock { article, quantity, version } = stock;
    let written = client.execute(SET, &[article, quantity, version]).await?;
    Ok(if written == 1 { Set::Applied } else { Set::Outdated })
}
