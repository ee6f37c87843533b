//! With sqlx: its pool, or a transaction that is there already.

use semel_core::{Attempt, Fingerprint, Outcome, Owner, Policy, RecordId, Reply, Settlement};
use semel_engine::Answer;
use semel_postgres::transaction::{BoxError, Event, OnceError, SameTransaction, TransactionClaim};
use sqlx::PgPool;

use super::{BOOK, assert_done_once, database, order, policy};

async fn book(
    pool: &PgPool,
    same: &SameTransaction,
    (id, fingerprint): (RecordId, Fingerprint),
    policy: &Policy,
) -> Result<Answer, OnceError> {
    same.once(pool, id, fingerprint, policy, |work| {
        Box::pin(async move {
            sqlx::query(BOOK).bind("alice").bind(100_i64).execute(&mut ***work).await?;
            work.stage(Event::new("entries", r#"{"account":"alice","amount":100}"#));
            Ok(Outcome::Completed(Reply::new("booked")))
        })
    })
    .await
}

#[tokio::test]
async fn a_pool_of_sqlx() {
    let url = database().await;
    let pool = PgPool::connect(&url).await.unwrap();
    let same = SameTransaction::new();
    for round in 0..3 {
        let answer = book(&pool, &same, order(), &policy()).await.unwrap();
        assert_eq!(answer.reply(), Some(&Reply::new("booked")));
        assert_eq!(matches!(answer, Answer::Executed { .. }), round == 0, "{answer:?}");
    }
    assert_done_once(&url).await;
}

/// `None` says that there is no reply yet, or never will be for this request.
async fn book_in_transaction(
    pool: &PgPool,
    same: &SameTransaction,
    attempt: &Attempt,
    policy: &Policy,
) -> Result<Option<Reply>, BoxError> {
    let mut tx = pool.begin().await?;
    let mut permit = match same.claim(&mut tx, attempt, policy).await? {
        TransactionClaim::Execute(permit) => permit,
        TransactionClaim::Replay { settlement, .. } => {
            tx.commit().await?;
            return Ok(settlement.reply().cloned());
        }
        _ => return Ok(None),
    };
    sqlx::query(BOOK).bind("alice").bind(100_i64).execute(&mut *tx).await?;
    permit.stage(Event::new("entries", r#"{"account":"alice","amount":100}"#));
    let settlement = Settlement::Completed(Reply::new("booked"));
    permit.settle(&mut tx, &settlement).await?;
    tx.commit().await?;
    Ok(settlement.reply().cloned())
}

#[tokio::test]
async fn a_transaction_of_sqlx() {
    let url = database().await;
    let pool = PgPool::connect(&url).await.unwrap();
    let same = SameTransaction::new();
    let (id, fingerprint) = order();
    for _ in 0..3 {
        let attempt = Attempt::new(id, fingerprint, Owner::from_u128(rand::random()));
        let reply = book_in_transaction(&pool, &same, &attempt, &policy()).await.unwrap();
        assert_eq!(reply, Some(Reply::new("booked")));
    }
    assert_done_once(&url).await;
}
