//! The transaction: what moves money, and what refuses to.
//!
//! Everything here happens in the transaction that Semel has claimed the key in. It is committed
//! together with the answer, or not at all; and it may run again if it was not. So nothing here
//! does anything but write to that transaction.

use semel_core::RecordId;
use semel_postgres::transaction::{BoxError, Event, Tx, Work};
use serde::{Deserialize, Serialize};
use tokio_postgres::Row;

use crate::refusal::Refusal;

/// A request to open an account.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Opening {
    id: String,
    currency: String,
    #[serde(default)]
    deposit: i64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Account {
    pub(crate) id: String,
    pub(crate) currency: String,
    /// In minor units.
    pub(crate) balance: i64,
}

/// A request for a transfer.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Order {
    pub(crate) from: String,
    pub(crate) to: String,
    /// In minor units.
    pub(crate) amount: i64,
    pub(crate) currency: String,
    #[serde(default)]
    pub(crate) reference: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct Transfer {
    pub(crate) id: String,
    #[serde(flatten)]
    pub(crate) order: Order,
}

/// Why a transaction ends without what it was begun for.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The bank refuses: that is an answer, and is kept.
    Refused(Refusal),
    /// The database failed: there is no answer yet.
    Failed(BoxError),
}

const OPEN: &str = "INSERT INTO bank.accounts (id, currency, opening, balance)
                    VALUES ($1, $2, $3, $3) ON CONFLICT (id) DO NOTHING";

/// In the order of their ids: two transfers that go opposite ways cannot wait for each other.
const LOCK: &str = "SELECT id, currency, balance FROM bank.accounts
                    WHERE id IN ($1, $2) ORDER BY id FOR NO KEY UPDATE";

const INSERT: &str = "INSERT INTO bank.transfers
                          (id, debited, credited, amount, currency, reference, idempotency_key)
                      VALUES ($1, $2, $3, $4, $5, $6, $7)
                      ON CONFLICT (idempotency_key) DO NOTHING";

const ENTER: &str = "INSERT INTO bank.entries (transfer, account, amount)
                     VALUES ($1, $2, -$4::bigint), ($1, $3, $4)";

/// Balances follow from the entries.
const BALANCE: &str = "UPDATE bank.accounts a SET balance = a.balance + e.amount
                       FROM bank.entries e WHERE e.transfer = $1 AND e.account = a.id";

/// Opens an account.
pub(crate) async fn open(work: &mut Work<'_, Tx>, opening: Opening) -> Result<Account, Stop> {
    opening.check()?;
    let Opening { id, currency, deposit } = opening;
    if work.execute(OPEN, &[&id, &currency, &deposit]).await? == 0 {
        return Err(Refusal::AccountExists(id).into());
    }
    Ok(Account { id, currency, balance: deposit })
}

/// Moves money, and stages the event that says so.
pub(crate) async fn transfer(
    work: &mut Work<'_, Tx>,
    key: RecordId,
    order: Order,
) -> Result<Transfer, Stop> {
    order.check()?;
    let (from, to) = lock(work, &order).await?;
    if from.balance < order.amount {
        return Err(Refusal::InsufficientFunds.into());
    }
    to.balance.checked_add(order.amount).ok_or(Refusal::TooMuch)?;

    let transfer = Transfer { id: format!("tr_{:032x}", rand::random::<u128>()), order };
    write(work, key, &transfer).await?;
    let payload = serde_json::to_vec(&transfer)?;
    work.stage(Event::new("transfers", payload).key(&transfer.order.from));
    Ok(transfer)
}

/// Locks both accounts until this transaction ends.
async fn lock(work: &Work<'_, Tx>, order: &Order) -> Result<(Account, Account), Stop> {
    let rows = work.query(LOCK, &[&order.from, &order.to]).await?;
    let accounts = rows.iter().map(Account::read).collect::<Result<Vec<_>, _>>()?;
    let (mut from, mut to) = (None, None);
    for account in accounts {
        if account.currency != order.currency {
            return Err(Refusal::WrongCurrency(account.id).into());
        }
        let place = if account.id == order.from { &mut from } else { &mut to };
        *place = Some(account);
    }
    let from = from.ok_or_else(|| Refusal::UnknownAccount(order.from.clone()))?;
    let to = to.ok_or_else(|| Refusal::UnknownAccount(order.to.clone()))?;
    Ok((from, to))
}

async fn write(work: &Work<'_, Tx>, key: RecordId, transfer: &Transfer) -> Result<(), Stop> {
    let Transfer { id, order } = transfer;
    let Order { from, to, amount, currency, reference } = order;
    let key = key.as_bytes().as_slice();
    let inserted = work.execute(INSERT, &[id, from, to, amount, currency, reference, &key]).await?;
    if inserted == 0 {
        // Semel let it pass, so the record is gone: its retention is over.
        return Err(Refusal::KeyUsed.into());
    }
    work.execute(ENTER, &[id, from, to, amount]).await?;
    work.execute(BALANCE, &[id]).await?;
    Ok(())
}

// === impl Opening ===

impl Opening {
    fn check(&self) -> Result<(), Refusal> {
        let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if !(1..=64).contains(&self.id.len()) || !self.id.bytes().all(is_fit) {
            return Err(Refusal::Invalid("an id has 1 to 64 letters, digits and hyphens".into()));
        }
        if self.currency.len() != 3 || !self.currency.bytes().all(|byte| byte.is_ascii_uppercase())
        {
            return Err(Refusal::Invalid("a currency is three letters of ISO 4217".into()));
        }
        if self.deposit < 0 {
            return Err(Refusal::Invalid("a deposit is not below zero".into()));
        }
        Ok(())
    }
}

// === impl Account ===

impl Account {
    pub(crate) fn read(row: &Row) -> Result<Self, tokio_postgres::Error> {
        Ok(Self { id: row.try_get(0)?, currency: row.try_get(1)?, balance: row.try_get(2)? })
    }
}

// === impl Order ===

impl Order {
    fn check(&self) -> Result<(), Refusal> {
        if self.amount <= 0 {
            return Err(Refusal::Invalid("an amount is above zero".into()));
        }
        // The database has no text with this character, and would refuse it again and again.
        if [&self.from, &self.to, &self.reference].iter().any(|text| text.contains('\0')) {
            return Err(Refusal::Invalid("a text is without U+0000".into()));
        }
        if self.from == self.to {
            return Err(Refusal::Invalid("a transfer is between two accounts".into()));
        }
        Ok(())
    }
}

// === impl Stop ===

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<tokio_postgres::Error> for Stop {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<serde_json::Error> for Stop {
    fn from(error: serde_json::Error) -> Self {
        Self::Failed(error.into())
    }
}
