//! The pool's connections: as many as it may have, shared, and fit for use.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use semel_core::{Attempt, Claim, Owner, RecordId};
use semel_postgres::transaction::{Database as _, OnceError, TransactionClaim};
use semel_store::Store as _;
use tokio::time::timeout;

use crate::bank::{Bank, attempt, body, conflict, deposit, id, is_executed, never};
use crate::gate::{Gate, LONG};

#[tokio::test]
async fn when_all_connections_are_in_use_the_error_says_so() {
    let bank = Bank::small(2).await;
    let impatient = bank.pool.clone().busy_timeout(Duration::from_millis(20));
    let gate = Gate::new();
    let hold = |key| {
        bank.once(key, conflict(), |work| {
            let gate = gate.clone();
            Box::pin(async move {
                gate.pass().await;
                deposit(work).await
            })
        })
    };
    let asking = async {
        gate.reached().await;
        gate.reached().await;
        let answer = timeout(LONG, impatient.once(id("k3"), body("100"), conflict(), never)).await;
        gate.open();
        answer.expect("the wait has a limit")
    };
    let (one, two, three) = tokio::join!(hold("k1"), hold("k2"), asking);
    assert!(is_executed(&one.unwrap()) && is_executed(&two.unwrap()));
    let error = three.unwrap_err();
    assert!(matches!(&error, OnceError::Unavailable(_)), "{error:?}");
    let expected = "nothing was done: all 2 connections were in use for 20ms; raise pool_max";
    assert_eq!(error.to_string(), expected);
    let answer = impatient.once(id("k3"), body("100"), conflict(), deposit).await.unwrap();
    assert!(is_executed(&answer), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_transactions_get_a_connection() {
    let bank = Bank::small(2).await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..20 {
        let pool = bank.pool.clone();
        let id = id(&format!("k-{number}"));
        tasks.spawn(async move { pool.once(id, body("100"), conflict(), deposit).await });
    }
    for answer in tasks.join_all().await {
        assert!(is_executed(&answer.unwrap()));
    }
    let open =
        format!("SELECT count(*) FROM pg_stat_activity WHERE application_name = '{}'", bank.schema);
    assert!(bank.number(&open).await <= 2);
}

/// The process of the server that does a piece of work, during which `meanwhile` happens.
async fn process(bank: &Bank, key: &str, meanwhile: impl AsyncFn()) -> i32 {
    let gate = Gate::new();
    let found = Arc::new(AtomicI32::new(0));
    let working = bank.once(key, conflict(), |work| {
        let (gate, found) = (gate.clone(), found.clone());
        Box::pin(async move {
            let row = work.query_one("SELECT pg_backend_pid()", &[]).await?;
            found.store(row.get(0), Ordering::SeqCst);
            gate.pass().await;
            deposit(work).await
        })
    });
    let other = async {
        gate.reached().await;
        meanwhile().await;
        gate.open();
    };
    let (answer, ()) = tokio::join!(working, other);
    answer.unwrap();
    found.load(Ordering::SeqCst)
}

/// A connection takes longer to make than most transactions.
#[tokio::test]
async fn a_conflict_does_not_cost_the_connection() {
    let bank = Bank::small(1).await;
    let store = bank.store().await;
    let first = process(&bank, "k1", async || {
        let claim = store.claim(&attempt("k1"), conflict()).await.unwrap();
        assert!(matches!(claim, Claim::Execute(_)), "{claim:?}");
    })
    .await;
    let second = process(&bank, "k2", async || {}).await;
    assert_eq!(first, second);
    assert_eq!(bank.counts().await, [1, 0, 2], "the first was undone");
}

/// The statements of the work are kept prepared, and its tables are changed meanwhile.
#[tokio::test]
async fn a_table_may_change_under_a_prepared_statement() {
    let bank = Bank::open().await;
    let look = async |key: &str| {
        let work = bank.once(key, conflict(), |work| {
            Box::pin(async move {
                work.query("SELECT * FROM account", &[]).await?;
                deposit(work).await
            })
        });
        work.await
    };
    for round in 0..3 {
        for turn in ["a", "b"] {
            let answer = look(&format!("{turn}-{round}")).await.unwrap();
            assert!(is_executed(&answer), "{answer:?}");
        }
        let change = format!("ALTER TABLE account ADD note_{round} text");
        bank.session.batch_execute(&change).await.unwrap();
    }
    bank.once("discard", conflict(), |work| {
        Box::pin(async move {
            work.client().batch_execute("DEALLOCATE ALL").await?;
            Err("only that".into())
        })
    })
    .await
    .unwrap_err();
    assert!(is_executed(&look("after").await.unwrap()));
}

/// The lowest of all numbers is one that SQL has no plain word for.
#[tokio::test]
async fn every_record_has_a_lock() {
    let bank = Bank::open().await;
    // The first eight bytes decide, together with the schema.
    let record = |start: i64| {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&start.to_be_bytes());
        RecordId::from_bytes(bytes)
    };
    let sql = "SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks
               WHERE locktype = 'advisory' AND pid = pg_backend_pid()";
    let lock_of = async |start| {
        let attempt = Attempt::new(record(start), body("100"), Owner::from_u128(1));
        let (tx, claim) = bank.pool.begin(&bank.same(), &attempt, conflict()).await.unwrap();
        assert!(matches!(claim, TransactionClaim::Execute(_)), "{claim:?}");
        let lock: i64 = tx.query_one(sql, &[]).await.unwrap().get(0);
        bank.pool.end(tx, false).await.unwrap();
        lock
    };
    let salt = lock_of(0).await;
    for lock in [i64::MIN, i64::MIN + 1, -1, 0, i64::MAX] {
        assert_eq!(lock_of(lock ^ salt).await, lock);
    }
}
