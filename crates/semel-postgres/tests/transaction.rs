//! Same transaction, on a real server.

mod support;

use semel_core::{Fingerprint, Outcome, Policy, RecordId, Reply};
use semel_engine::Answer;
use semel_postgres::migrate;
use semel_postgres::transaction::{Event, TransactionPool};

use support::{connect, fresh_url, options, schema_of};

#[tokio::test(flavor = "multi_thread")]
async fn work_is_done_once_and_replayed() {
    let url = fresh_url();
    migrate(&options(&url)).await.expect("a schema");
    let schema = schema_of(&url).to_owned();
    let session = connect(&url).await;
    session.batch_execute(&format!("CREATE TABLE {schema}.entry (amount bigint)")).await.unwrap();
    let pool = TransactionPool::open(options(&url)).await.expect("a pool");
    let (id, fingerprint) = (RecordId::from_bytes([1; 32]), Fingerprint::new([("body", "100")]));
    for round in 0..3 {
        let sql = format!("INSERT INTO {schema}.entry VALUES ($1)");
        let answer = pool
            .once(id, fingerprint, &Policy::default(), |work| {
                let sql = sql.clone();
                Box::pin(async move {
                    work.execute(&sql, &[&100_i64]).await?;
                    work.stage(Event::new("entries", "100").key("k").header("a", "b"));
                    Ok(Outcome::Completed(Reply::new("done")))
                })
            })
            .await
            .expect("an answer");
        assert_eq!(answer.reply(), Some(&Reply::new("done")));
        assert_eq!(matches!(answer, Answer::Executed { .. }), round == 0, "{answer:?}");
    }
    let count = |table: &str| format!("SELECT count(*) FROM {schema}.{table}");
    for table in ["entry", "outbox", "record"] {
        let rows: i64 = session.query_one(&count(table), &[]).await.unwrap().get(0);
        assert_eq!(rows, 1, "{table}");
    }
}
