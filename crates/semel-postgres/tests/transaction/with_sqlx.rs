//! The same with sqlx, and both drivers on the same records.

use std::str::FromStr as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use semel_core::{Attempt, Fence, Outcome, Policy, Reply, ResultId, Settlement, Timestamp};
use semel_postgres::transaction::{
    Database, Event, OnceError, Retry, TransactionClaim, Work, WorkFuture,
};
use semel_store::Answer;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection as _, PgConnection, PgPool, Postgres, Transaction};
use tokio::sync::Barrier;

use crate::bank::{Bank, STUBBORN, attempt, body, conflict, deposit, id, wait};
use crate::bank::{is_executed, is_in_flight, is_replayed, never};
use crate::gate::{Gate, LONG};
use crate::relay::{Cut, Relay};

type Tx = Transaction<'static, Postgres>;

const DEPOSIT: &str = "INSERT INTO entry VALUES (100)";

fn address(bank: &Bank, url: &str) -> PgConnectOptions {
    let (base, _) = url.split_once('?').unwrap();
    let options = PgConnectOptions::from_str(base).unwrap();
    options.application_name(&bank.schema).options([("search_path", &bank.schema)])
}

async fn pool_at(address: PgConnectOptions) -> PgPool {
    PgPoolOptions::new().max_connections(4).connect_with(address).await.expect("a pool of sqlx")
}

async fn pool(bank: &Bank) -> PgPool {
    pool_at(address(bank, &bank.url)).await
}

/// Does a piece of work once, with the usual request.
async fn once<W>(
    bank: &Bank,
    pool: &PgPool,
    key: &str,
    policy: &Policy,
    work: W,
) -> Result<Answer, OnceError>
where
    W: for<'w> FnMut(&'w mut Work<'_, Tx>) -> WorkFuture<'w> + Send,
{
    bank.same().retry(STUBBORN).once(pool, id(key), body("100"), policy, work).await
}

/// Books an entry and stages an event.
fn announced<'w>(work: &'w mut Work<'_, Tx>) -> WorkFuture<'w> {
    Box::pin(async move {
        sqlx::query(DEPOSIT).execute(&mut ***work).await?;
        work.stage(Event::new("entries", vec![0, 0xff]).key("anna").header("a", "1"));
        work.stage(Event::new("audit", ""));
        Ok(Outcome::Completed(reply()))
    })
}

fn reply() -> Reply {
    Reply::new(vec![0, 0xff, b'x']).with_result(ResultId::new("entry-1").unwrap())
}

fn never_here<'w>(_: &'w mut Work<'_, Tx>) -> WorkFuture<'w> {
    panic!("executed")
}

#[tokio::test]
async fn both_drivers_see_each_others_records() {
    let bank = Bank::open().await;
    let pool = pool(&bank).await;
    let answer = once(&bank, &pool, "k1", conflict(), announced).await.unwrap();
    let Answer::Executed { settlement, expires, fence, .. } = answer else { panic!("{answer:?}") };
    assert_eq!((&settlement, fence), (&Settlement::Completed(reply()), Fence::FIRST));
    let replayed = Answer::Replayed { settlement, expires };
    assert_eq!(once(&bank, &pool, "k1", conflict(), never_here).await.unwrap(), replayed);
    assert_eq!(bank.once("k1", conflict(), never).await.unwrap(), replayed);

    bank.once("k2", conflict(), deposit).await.unwrap();
    let answer = once(&bank, &pool, "k2", conflict(), never_here).await.unwrap();
    assert_eq!(answer.reply(), Some(&Reply::new("done")));
    assert_eq!(bank.counts().await, [2, 2, 2]);
}

/// The rows of the outbox, with the ids of their events.
async fn outbox(bank: &Bank) -> Vec<String> {
    let sql = "SELECT (o.event, o.topic, o.type, o.key, o.headers, o.payload, o.record, o.not_before)::text
               FROM outbox o ORDER BY seq";
    let rows = bank.session.query(sql, &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// Makes one attempt that only writes events.
async fn write_events<D: Database>(database: &D, bank: &Bank, attempt: &Attempt, events: &[Event]) {
    let (tx, claim) = database.begin(&bank.same(), attempt, conflict()).await.unwrap();
    let TransactionClaim::Execute(mut permit) = claim else { panic!("{claim:?}") };
    events.iter().cloned().for_each(|event| permit.stage(event));
    database.commit(tx, permit, &Settlement::Completed(reply())).await.unwrap();
}

/// One event is written by another statement than several are.
#[tokio::test]
async fn both_drivers_write_the_same_events() {
    let events = [
        Event::new("entries", vec![0, 0xff]).key("anna").header("a", "1").header("b", "\"2\""),
        Event::new("audit", "").event_type("looked").not_before(Timestamp::from_millis(1_500)),
    ];
    for count in 1..=2 {
        let (one, two) = (Bank::open().await, Bank::open().await);
        let (attempt, events) = (attempt("k"), &events[..count]);
        write_events(&pool(&one).await, &one, &attempt, events).await;
        write_events(&two.pool, &two, &attempt, events).await;
        let result = outbox(&one).await;
        assert_eq!((result.len(), &result), (count, &outbox(&two).await));
    }
}

#[tokio::test]
async fn work_in_flight_by_one_driver_is_so_for_the_other() {
    let bank = Bank::open().await;
    let pool = pool(&bank).await;
    let gate = Gate::new();
    let working = once(&bank, &pool, "k", conflict(), |work| {
        let gate = gate.clone();
        Box::pin(async move {
            gate.pass().await;
            announced(work).await
        })
    });
    let asking = async {
        gate.reached().await;
        let result = bank.once("k", conflict(), never).await.unwrap();
        let ours = once(&bank, &pool, "k", conflict(), never_here).await.unwrap();
        gate.open();
        assert!(is_in_flight(&result) && is_in_flight(&ours), "{result:?} {ours:?}");
    };
    let (answer, ()) = tokio::join!(working, asking);
    assert!(is_executed(&answer.unwrap()));
    assert!(is_replayed(&once(&bank, &pool, "k", &wait(LONG), never_here).await.unwrap()));
}

#[tokio::test]
async fn a_transaction_of_the_callers_own_will_do() {
    let bank = Bank::open().await;
    let same = bank.same();
    let mut connection = PgConnection::connect_with(&address(&bank, &bank.url)).await.unwrap();
    for (key, commits) in [("k1", false), ("k1", true)] {
        let mut tx = connection.begin().await.unwrap();
        let claim = same.claim(&mut tx, &attempt(key), conflict()).await.unwrap();
        let TransactionClaim::Execute(mut permit) = claim else { panic!("{claim:?}") };
        sqlx::query(DEPOSIT).execute(&mut *tx).await.unwrap();
        permit.stage(Event::new("entries", "100"));
        permit.settle(&mut tx, &Settlement::Completed(reply())).await.unwrap();
        if commits {
            tx.commit().await.unwrap();
        } else {
            tx.rollback().await.unwrap();
        }
    }
    assert_eq!(bank.counts().await, [1, 1, 1]);
    let mut tx = connection.begin().await.unwrap();
    let claim = same.claim(&mut tx, &attempt("k1"), conflict()).await.unwrap();
    assert!(matches!(claim, TransactionClaim::Replay { .. }), "{claim:?}");
}

#[tokio::test]
async fn only_what_is_completed_leaves_rows_and_events() {
    let bank = Bank::open().await;
    let pool = pool(&bank).await;
    let outcomes = [
        ("error", None, 0),
        ("for-now", Some(Outcome::FailedForNow(Reply::default())), 0),
        ("unknown", Some(Outcome::Unknown(Reply::default())), 0),
        ("failed", Some(Outcome::Failed(Reply::new("no"))), 1),
    ];
    for (key, outcome, records) in outcomes {
        let work = once(&bank, &pool, key, conflict(), |work| {
            let outcome = outcome.clone();
            Box::pin(async move {
                announced(work).await?;
                outcome.ok_or_else(|| "no funds".into())
            })
        });
        assert_eq!(work.await.is_ok(), outcome.is_some(), "{key}");
        assert_eq!(bank.counts().await, [0, 0, records], "{key}");
    }
    let failed = once(&bank, &pool, "failed", conflict(), never_here).await.unwrap();
    assert_eq!(failed.reply(), Some(&Reply::new("no")));
}

/// Both read a balance, and both write what they make of it: one of them must read again.
#[tokio::test(flavor = "multi_thread")]
async fn a_conflict_is_tried_again() {
    let bank = Bank::open().await;
    let serializable = [("default_transaction_isolation", "serializable")];
    let pool = pool_at(address(&bank, &bank.url).options(serializable)).await;
    let (calls, both) = (Arc::new(AtomicU32::new(0)), Arc::new(Barrier::new(2)));
    let add = |key| {
        once(&bank, &pool, key, conflict(), |work| {
            let (call, both) = (calls.fetch_add(1, Ordering::SeqCst), both.clone());
            Box::pin(async move {
                let sql = "SELECT balance FROM account WHERE name = 'anna'";
                let balance: i64 = sqlx::query_scalar(sql).fetch_one(&mut ***work).await?;
                if call < 2 {
                    both.wait().await;
                }
                let sql = "UPDATE account SET balance = $1 WHERE name = 'anna'";
                sqlx::query(sql).bind(balance + 1).execute(&mut ***work).await?;
                announced(work).await
            })
        })
    };
    let (one, two) = tokio::join!(add("k1"), add("k2"));
    assert!(is_executed(&one.unwrap()) && is_executed(&two.unwrap()));
    assert!(calls.load(Ordering::SeqCst) >= 3, "there was no conflict");
    assert_eq!(bank.number("SELECT balance FROM account WHERE name = 'anna'").await, 2);
    assert_eq!(bank.counts().await, [2, 4, 2]);
}

#[tokio::test]
async fn a_connection_that_breaks_is_tried_again() {
    let bank = Bank::open().await;
    let pool = pool(&bank).await;
    let calls = AtomicU32::new(0);
    let work = once(&bank, &pool, "k", conflict(), |work| {
        let call = calls.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            let outcome = announced(work).await;
            if call == 0 {
                let kill = "SELECT pg_terminate_backend(pg_backend_pid())";
                sqlx::query(kill).execute(&mut ***work).await?;
            }
            outcome
        })
    });
    assert!(is_executed(&work.await.unwrap()));
    assert_eq!(calls.into_inner(), 2);
    assert_eq!(bank.counts().await, [1, 2, 1]);
}

#[tokio::test]
async fn a_lost_commit_is_done_once() {
    for (cut, is_expected) in
        [(Cut::Before, is_executed as fn(&Answer) -> bool), (Cut::After, is_replayed)]
    {
        let (bank, relay) = (Bank::open().await, Relay::cut_once(cut).await);
        let pool = pool_at(address(&bank, &relay.through(&bank.url))).await;
        let answer = once(&bank, &pool, "k", conflict(), announced).await.unwrap();
        assert!(is_expected(&answer) && relay.was_cut(), "{cut:?}: {answer:?}");
        assert_eq!(bank.counts().await, [1, 2, 1], "{cut:?}");
    }
}

#[tokio::test]
async fn without_a_further_try_a_lost_commit_is_an_error() {
    let (bank, relay) = (Bank::open().await, Relay::cut_once(Cut::After).await);
    let pool = pool_at(address(&bank, &relay.through(&bank.url))).await;
    let same = bank.same().retry(Retry::NEVER);
    let error = same.once(&pool, id("k"), body("100"), conflict(), announced).await.unwrap_err();
    assert!(matches!(error, OnceError::Lost(_)), "{error:?}");
    let answer = once(&bank, &pool, "k", conflict(), never_here).await.unwrap();
    assert!(is_replayed(&answer), "{answer:?}");
}
