//! I6: an outcome is durable before it is returned, whatever the database's defaults are.

use std::sync::{Arc, Mutex};

use semel_postgres::transaction::Isolation;
use semel_testserver::Postgres;

use crate::bank::{Bank, completed, conflict};
use crate::support::connect;

/// What the work finds `synchronous_commit` to be, in a database whose default is `default`.
async fn found_with(default: &str) -> (String, Bank) {
    let url = Postgres::shared().new_database().unwrap();
    let database = url.rsplit_once('/').unwrap().1.to_owned();
    let lower = format!("ALTER DATABASE {database} SET synchronous_commit = {default}");
    connect(&url).await.batch_execute(&lower).await.unwrap();
    let url = format!("{url}?schema=semel");
    let bank = Bank::at(&url, Isolation::Default, |options| options).await;
    let found = Arc::new(Mutex::new(String::new()));
    let work = bank.once("k", conflict(), |work| {
        let found = found.clone();
        Box::pin(async move {
            let row = work.query_one("SHOW synchronous_commit", &[]).await?;
            *found.lock().unwrap() = row.get(0);
            Ok(completed("done"))
        })
    });
    work.await.unwrap();
    let found = found.lock().unwrap().clone();
    (found, bank)
}

#[tokio::test]
async fn synchronous_commit_is_raised_to_a_durable_level() {
    for default in ["off", "local"] {
        let (found, bank) = found_with(default).await;
        assert_eq!(found, "on", "{default}");
        // For this transaction alone: the caller's next one is the caller's.
        let (same, mut client) = (bank.same(), bank.connect().await);
        let mut tx = client.transaction().await.unwrap();
        same.claim(&mut tx, &crate::bank::attempt("l"), conflict()).await.unwrap();
        let row = tx.query_one("SHOW synchronous_commit", &[]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), "on", "{default}");
        tx.commit().await.unwrap();
        let row = client.query_one("SHOW synchronous_commit", &[]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), default);
    }
}

#[tokio::test]
async fn a_more_durable_setting_stays() {
    for default in ["remote_write", "remote_apply"] {
        assert_eq!(found_with(default).await.0, default);
    }
}
