//! One invoice per number, for any number of requests and senders.

use crate::database::{Database, number};
use patterns::business_key::{Invoice, Made, make};

fn invoice() -> Invoice {
    Invoice { number: "2026-0042".into(), customer: "alice".into(), amount: 10_000 }
}

const COUNT: &str = "SELECT count(*) FROM invoices";

#[tokio::test]
async fn a_retry_finds_what_was_made() {
    let client = Database::make().await.session().await;
    assert_eq!(make(&client, &invoice()).await.unwrap(), Made::Now);
    assert_eq!(make(&client, &invoice()).await.unwrap(), Made::Before);
    assert_eq!(number(&client, COUNT).await, 1);
}

#[tokio::test]
async fn another_invoice_with_the_same_number_is_told_apart() {
    let client = Database::make().await.session().await;
    make(&client, &invoice()).await.unwrap();
    let other = Invoice { amount: 1, ..invoice() };
    assert_eq!(make(&client, &other).await.unwrap(), Made::Otherwise(invoice()));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_at_once_one_makes_it() {
    let database = Database::make().await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let client = database.session().await;
        tasks.spawn(async move { make(&client, &invoice()).await.unwrap() });
    }
    let made = tasks.join_all().await;
    assert_eq!(made.iter().filter(|made| **made == Made::Now).count(), 1, "{made:?}");
    assert_eq!(made.iter().filter(|made| **made == Made::Before).count(), 19, "{made:?}");
}

/// An insert that conflicts with an uncommitted one waits for its end.
#[tokio::test(flavor = "multi_thread")]
async fn an_unfinished_one_is_waited_for() {
    for (end, expected) in [("COMMIT", Made::Before), ("ROLLBACK", Made::Now)] {
        let database = Database::make().await;
        let (first, second) = (database.session().await, database.session().await);
        first.batch_execute("BEGIN").await.unwrap();
        assert_eq!(make(&first, &invoice()).await.unwrap(), Made::Now);
        let waiting = tokio::spawn(async move { make(&second, &invoice()).await.unwrap() });
        let is_met = "SELECT count(*) FROM pg_stat_activity
                      WHERE wait_event_type = 'Lock' AND datname = current_database()";
        while number(&first, is_met).await == 0 {
            tokio::task::yield_now().await;
        }
        first.batch_execute(end).await.unwrap();
        assert_eq!(waiting.await.unwrap(), expected);
    }
}

/// The mistake: look first, then insert. Two look before either has inserted. Without a unique key
/// there are two invoices; with one, one of two customers gets an error for an answer.
#[tokio::test]
async fn looking_first_is_too_early() {
    let database = Database::make().await;
    let (one, other) = (database.session().await, database.session().await);
    one.batch_execute("CREATE TABLE careless (number text)").await.unwrap();
    let look = "SELECT count(*) FROM careless WHERE number = '2026-0042'";
    let insert = "INSERT INTO careless VALUES ('2026-0042')";

    let (one_saw, other_saw) = (number(&one, look).await, number(&other, look).await);
    assert_eq!((one_saw, other_saw), (0, 0));
    one.batch_execute(insert).await.unwrap();
    other.batch_execute(insert).await.unwrap();
    assert_eq!(number(&one, look).await, 2);

    one.batch_execute("TRUNCATE careless; ALTER TABLE careless ADD UNIQUE (number)").await.unwrap();
    assert_eq!((number(&one, look).await, number(&other, look).await), (0, 0));
    one.batch_execute(insert).await.unwrap();
    let error = other.batch_execute(insert).await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "23505");
}

/// A transaction with an old snapshot cannot see the conflicting row, and fails.
#[tokio::test]
async fn stricter_transactions_begin_anew() {
    let database = Database::make().await;
    let (strict, other) = (database.session().await, database.session().await);
    strict.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.unwrap();
    make(&other, &invoice()).await.unwrap();
    let error = make(&strict, &invoice()).await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "40001");
    strict.batch_execute("ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    assert_eq!(make(&strict, &invoice()).await.unwrap(), Made::Before);
}
