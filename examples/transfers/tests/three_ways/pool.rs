//! With a pool of Semel's own.

use semel_core::{Fingerprint, Outcome, Policy, RecordId, Reply};
use semel_engine::Answer;
use semel_postgres::Options;
use semel_postgres::transaction::{Event, OnceError, TransactionPool};

use super::{BOOK, assert_done_once, database, order, policy};

async fn book(
    pool: &TransactionPool,
    id: RecordId,
    fingerprint: Fingerprint,
    policy: &Policy,
) -> Result<Answer, OnceError> {
    pool.once(id, fingerprint, policy, |work| {
        Box::pin(async move {
            work.execute(BOOK, &[&"alice", &100_i64]).await?;
            work.stage(Event::new("entries", r#"{"account":"alice","amount":100}"#).key("alice"));
            Ok(Outcome::Completed(Reply::new("booked")))
        })
    })
    .await
}

#[tokio::test]
async fn a_pool_of_its_own() {
    let url = database().await;
    let pool = TransactionPool::open(Options::from_url(&url).unwrap()).await.unwrap();
    let (id, fingerprint) = order();
    for round in 0..3 {
        let answer = book(&pool, id, fingerprint, &policy()).await.unwrap();
        assert_eq!(answer.reply(), Some(&Reply::new("booked")));
        assert_eq!(matches!(answer, Answer::Executed { .. }), round == 0, "{answer:?}");
    }
    let other = Fingerprint::new([("body", "another")]);
    let answer = book(&pool, id, other, &policy()).await.unwrap();
    assert!(matches!(answer, Answer::Mismatch), "{answer:?}");
    assert_done_once(&url).await;
}

/// What the guide says that the role of a service needs, and nothing else.
#[tokio::test]
async fn a_role_with_few_rights_is_enough() {
    let url = database().await;
    let owner = Options::from_url(&url).unwrap().connect().await.unwrap();
    let role = format!("teller_{}", url.rsplit('/').next().unwrap());
    let grants = format!(
        "CREATE ROLE {role} LOGIN PASSWORD 'teller';
         GRANT USAGE ON SCHEMA semel TO {role};
         GRANT SELECT, INSERT, UPDATE, DELETE ON semel.record TO {role};
         GRANT SELECT ON semel.migration TO {role};
         GRANT INSERT ON semel.outbox TO {role};
         GRANT INSERT ON entry TO {role}"
    );
    owner.batch_execute(&grants).await.unwrap();
    let (_, server) = url.split_once('@').unwrap();
    let options = Options::from_url(&format!("postgres://{role}:teller@{server}")).unwrap();
    let pool = TransactionPool::open(options).await.unwrap();
    let (id, fingerprint) = order();
    for _ in 0..2 {
        book(&pool, id, fingerprint, &policy()).await.unwrap();
    }
    assert_done_once(&url).await;
}
