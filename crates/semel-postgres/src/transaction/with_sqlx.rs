//! Transactions of sqlx.
//!
//! A `sqlx::Transaction` stands for the `PgConnection` that it is on: claim with `&mut *tx`.

use semel_core::{Attempt, Policy, Settlement, Timestamp};
use sqlx::types::Uuid;
use sqlx::{AssertSqlSafe, PgConnection, PgPool, Postgres, Row as _, Transaction};

use super::once::{BoxError, Database};
use super::retry::Failure;
use super::session::{Asked, Found, Session, Settling};
use super::{Permit, SameTransaction, SessionError, TransactionClaim};
use crate::row::{self, SettlementParams};

impl Session for PgConnection {
    type Error = sqlx::Error;

    async fn claim(&mut self, sql: &str, asked: &Asked) -> Result<Found, sqlx::Error> {
        let row = sqlx::query(AssertSqlSafe(sql.to_owned()))
            .bind(asked.id.as_bytes().as_slice())
            .bind(asked.fingerprint.as_bytes().as_slice())
            .bind(asked.lock)
            .bind(asked.wait_ms)
            .bind(asked.on_abandoned)
            .fetch_one(self)
            .await?;
        let reply: Option<Vec<u8>> = row.try_get(7)?;
        Ok(Found {
            verdict: row.try_get(0)?,
            fence: row.try_get(1)?,
            replaces: row.try_get(2)?,
            now_ms: row.try_get(3)?,
            expires: row.try_get(4)?,
            state: row.try_get(5)?,
            result: row.try_get(6)?,
            reply: reply.map(Into::into),
        })
    }

    async fn settle(&mut self, sql: &str, settling: &Settling<'_>) -> Result<i64, sqlx::Error> {
        let outcome = SettlementParams::new(settling.settlement);
        let events = &settling.events;
        let ids: Vec<Uuid> = events.ids.iter().copied().map(Uuid::from_u128).collect();
        let payloads: Vec<&[u8]> = events.payloads.iter().map(|payload| &payload[..]).collect();
        let row = sqlx::query(AssertSqlSafe(sql.to_owned()))
            .bind(settling.id.as_bytes().as_slice())
            .bind(settling.fingerprint.as_bytes().as_slice())
            .bind(Uuid::from_u128(settling.owner.as_u128()))
            .bind(row::fence_param(settling.fence))
            .bind(settling.replaces)
            .bind(row::millis(settling.ttl))
            .bind(outcome.state)
            .bind(outcome.result)
            .bind(outcome.reply.map(|reply| reply.0))
            .bind(ids)
            .bind(&events.topics)
            .bind(&events.keys)
            .bind(&events.headers)
            .bind(payloads)
            .fetch_one(self)
            .await?;
        row.try_get(0)
    }
}

/// For [`SameTransaction::once`]: the work is given the transaction.
impl Database for PgPool {
    type Tx = Transaction<'static, Postgres>;

    async fn begin(
        &self,
        same: &SameTransaction,
        attempt: &Attempt,
        policy: &Policy,
    ) -> Result<(Self::Tx, TransactionClaim), BoxError> {
        let mut tx = PgPool::begin(self).await?;
        let claim = same.claim(&mut *tx, attempt, policy).await.map_err(boxed)?;
        Ok((tx, claim))
    }

    async fn commit(
        &self,
        mut tx: Self::Tx,
        permit: Permit,
        settlement: &Settlement,
    ) -> Result<Timestamp, BoxError> {
        let expires = permit.settle(&mut *tx, settlement).await.map_err(boxed)?;
        tx.commit().await?;
        Ok(expires)
    }

    async fn end(&self, tx: Self::Tx, keep: bool) -> Result<(), BoxError> {
        if keep {
            tx.commit().await?
        } else {
            tx.rollback().await?
        }
        Ok(())
    }
}

/// As itself, so that it is recognised.
fn boxed(error: SessionError<sqlx::Error>) -> BoxError {
    match error {
        SessionError::Driver(error) => error.into(),
        corrupt @ SessionError::Corrupt { .. } => corrupt.into(),
    }
}

/// What an error of sqlx means.
pub(super) fn failure(error: &sqlx::Error) -> Failure {
    match error {
        sqlx::Error::Database(server) => {
            server.code().map_or(Failure::Final, |state| Failure::of_state(&state))
        }
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) => Failure::Lost,
        _ => Failure::Final,
    }
}
