//! Transactions of sqlx.

use semel_core::{Attempt, Policy, Settlement, Timestamp};
use sqlx::postgres::{PgDatabaseError, PgSeverity};
use sqlx::types::Uuid;
use sqlx::{AssertSqlSafe, PgPool, Postgres, Row as _, Transaction};

use super::once::{BoxError, Database};
use super::retry::{CommitNotSent, Failure};
use super::session::{ClaimReply, ClaimRequest, Session, SettleRequest};
use super::{Permit, SameTransaction, SessionError, TransactionClaim};
use crate::row::{self, SettlementParams};

impl Session for Transaction<'_, Postgres> {
    type Error = sqlx::Error;

    async fn claim(
        &mut self,
        sql: &str,
        request: &ClaimRequest,
    ) -> Result<ClaimReply, sqlx::Error> {
        let row = sqlx::query(AssertSqlSafe(sql.to_owned()))
            .bind(request.id.as_bytes().as_slice())
            .bind(request.fingerprint.as_bytes().as_slice())
            .bind(request.lock)
            .bind(request.wait_ms)
            .bind(request.on_abandoned)
            .fetch_one(&mut **self)
            .await?;
        let reply: Option<Vec<u8>> = row.try_get(7)?;
        Ok(ClaimReply {
            verdict: row.try_get(0)?,
            fence: row.try_get(1)?,
            replaces: row.try_get(2)?,
            now_ms: row.try_get(3)?,
            expires: row.try_get(4)?,
            state: row.try_get(5)?,
            result: row.try_get(6)?,
            reply: reply.map(Into::into),
            began: row.try_get(8)?,
        })
    }

    async fn settle(&mut self, sql: &str, request: &SettleRequest<'_>) -> Result<i64, sqlx::Error> {
        let outcome = SettlementParams::new(request.settlement);
        let events = &request.events;
        let ids: Vec<Uuid> = events.ids.iter().copied().map(Uuid::from_u128).collect();
        let payloads: Vec<&[u8]> = events.payloads.iter().map(|payload| &payload[..]).collect();
        let row = sqlx::query(AssertSqlSafe(sql.to_owned()))
            .bind(request.id.as_bytes().as_slice())
            .bind(request.fingerprint.as_bytes().as_slice())
            .bind(Uuid::from_u128(request.owner.as_u128()))
            .bind(row::fence_param(request.fence))
            .bind(request.began)
            .bind(row::millis(request.ttl))
            .bind(outcome.state)
            .bind(outcome.result)
            .bind(outcome.reply.map(|reply| reply.0))
            .bind(ids)
            .bind(&events.topics)
            .bind(&events.keys)
            .bind(&events.headers)
            .bind(payloads)
            .bind(&events.types)
            .bind(&events.not_befores)
            .bind(request.replaces)
            .fetch_one(&mut **self)
            .await?;
        row.try_get(0)
    }
}

/// For [`SameTransaction::once`]: the work gets the transaction.
impl Database for PgPool {
    type Tx = Transaction<'static, Postgres>;

    async fn begin(
        &self,
        same: &SameTransaction,
        attempt: &Attempt,
        policy: &Policy,
    ) -> Result<(Self::Tx, TransactionClaim), BoxError> {
        let mut tx = PgPool::begin(self).await?;
        match same.claim(&mut tx, attempt, policy).await {
            Ok(claim) => Ok((tx, claim)),
            Err(error) => Err(undone(tx, error).await),
        }
    }

    async fn commit(
        &self,
        mut tx: Self::Tx,
        permit: Permit,
        settlement: &Settlement,
    ) -> Result<Timestamp, BoxError> {
        match permit.settle(&mut tx, settlement).await {
            Ok(expires) => tx.commit().await.map(|()| expires).map_err(Into::into),
            Err(error) => Err(CommitNotSent::wrap_unless_definite(undone(tx, error).await)),
        }
    }

    async fn end(&self, tx: Self::Tx, keep: bool) -> Result<(), BoxError> {
        if keep {
            tx.commit().await?;
        } else {
            tx.rollback().await?;
        }
        Ok(())
    }
}

/// Rolls back at once: a drop would roll back in the background, and the next try could find its lock.
async fn undone(tx: Transaction<'_, Postgres>, error: SessionError<sqlx::Error>) -> BoxError {
    // Even if this fails, the transaction ends with its connection.
    let _ = tx.rollback().await;
    error.into()
}

/// Classifies an error of sqlx.
pub(super) fn failure(error: &sqlx::Error) -> Failure {
    match error {
        sqlx::Error::Database(server) => match server.try_downcast_ref::<PgDatabaseError>() {
            Some(error) => {
                let ends_session =
                    matches!(error.severity(), PgSeverity::Fatal | PgSeverity::Panic);
                Failure::of_state(error.code(), ends_session)
            }
            None => Failure::Final,
        },
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) => Failure::Lost,
        _ => Failure::Final,
    }
}
