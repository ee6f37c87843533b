//! A unique business key.
//!
//! The sender has chosen the number of an invoice before. The table has at most one row per number. So no separate
//! record of the work is needed: the row is the record, and stays as long as the invoice.

use tokio_postgres::{Client, Error, Row};

/// An invoice under its own number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invoice {
    /// The business key.
    pub number: String,
    /// The customer to bill.
    pub customer: String,
    /// How much, in minor units.
    pub amount: i64,
}

/// What became of a request to make an invoice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Made {
    /// It was made now.
    Now,
    /// It was there already, and is the same: answer as if it was made now.
    Before,
    /// The number was used for another: refuse. This is what a mismatch is to a key.
    Otherwise(Invoice),
    /// It was there and then deleted, in the middle of this.
    Gone,
}

/// One atomic step, which also shows whether this statement inserted the row.
const INSERT: &str = "INSERT INTO invoices (number, customer, amount) VALUES ($1, $2, $3)
                      ON CONFLICT (number) DO NOTHING RETURNING number";

const READ: &str = "SELECT number, customer, amount FROM invoices WHERE number = $1";

/// Makes an invoice, once.
///
/// Outside of a transaction, or in one of READ COMMITTED: the second statement must see the conflicting row of the
/// first. In stricter transactions the first fails with a serialization failure if that row is not visible; begin a
/// new transaction.
pub async fn make(client: &Client, invoice: &Invoice) -> Result<Made, Error> {
    let Invoice { number, customer, amount } = invoice;
    if client.query_opt(INSERT, &[number, customer, amount]).await?.is_some() {
        return Ok(Made::Now);
    }
    let Some(row) = client.query_opt(READ, &[number]).await? else {
        return Ok(Made::Gone);
    };
    let found = Invoice::read(&row)?;
    Ok(if found == *invoice { Made::Before } else { Made::Otherwise(found) })
}

// === impl Invoice ===

impl Invoice {
    fn read(row: &Row) -> Result<Self, Error> {
        Ok(Self { number: row.try_get(0)?, customer: row.try_get(1)?, amount: row.try_get(2)? })
    }
}
