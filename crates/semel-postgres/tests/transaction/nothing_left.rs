//! Work that does not come to its end leaves nothing: no row, no event, no record, no lock, and no
//! place in the pool taken.

use std::sync::atomic::{AtomicU32, Ordering};

use semel_core::{Fence, Outcome, Reply};
use semel_postgres::transaction::{Event, OnceError, Retry, Tx, Work, WorkFuture};
use semel_store::Answer;
use tokio::task::JoinHandle;

use crate::bank::{
    Bank, STUBBORN, body, completed, conflict, deposit, id, is_executed, is_in_flight,
};
use crate::gate::{Gate, until};

/// More often than there are connections: none of them may stay behind.
const ROUNDS: usize = CONNECTIONS + 5;
const CONNECTIONS: usize = 2;

/// Demands that nothing is there, and that the key and all connections are free.
async fn assert_nothing_left(bank: &Bank) {
    assert_eq!(bank.counts().await, [0, 0, 0]);
    // The server may take a moment to notice.
    let answer = async || bank.once("k", conflict(), deposit).await.unwrap();
    let mut last = answer().await;
    until("the key is free", async || {
        if is_in_flight(&last) {
            last = answer().await;
        }
        !is_in_flight(&last)
    })
    .await;
    let Answer::Executed { fence, .. } = last else { panic!("{last:?}") };
    assert_eq!(fence, Fence::FIRST);
    assert_eq!(bank.counts().await, [1, 0, 1]);
}

/// Books an entry and stages an event.
async fn begin_work(work: &mut Work<'_, Tx>) -> Result<(), tokio_postgres::Error> {
    work.stage(Event::new("entries", "100"));
    work.execute("INSERT INTO entry VALUES (100)", &[]).await.map(drop)
}

#[tokio::test]
async fn an_error_leaves_nothing() {
    let bank = Bank::small(CONNECTIONS).await;
    for _ in 0..ROUNDS {
        let work = bank.once("k", conflict(), |work| {
            Box::pin(async move {
                begin_work(work).await?;
                Err("no funds".into())
            })
        });
        let error = work.await.unwrap_err();
        assert!(matches!(&error, OnceError::Work(_)), "{error:?}");
        assert_eq!(error.to_string(), "the work failed and was rolled back: no funds");
    }
    assert_nothing_left(&bank).await;
}

#[tokio::test]
async fn an_error_of_the_server_leaves_nothing() {
    let bank = Bank::small(CONNECTIONS).await;
    for _ in 0..ROUNDS {
        let work = bank.once("k", conflict(), |work| {
            Box::pin(async move {
                begin_work(work).await?;
                work.execute("INSERT INTO account VALUES ('anna', 0)", &[]).await?;
                Ok(completed("done"))
            })
        });
        let error = work.await.unwrap_err();
        assert!(matches!(&error, OnceError::Work(_)), "{error:?}");
    }
    assert_nothing_left(&bank).await;
}

/// The server has aborted the transaction. Even if the work reports success, it cannot commit.
#[tokio::test]
async fn an_error_that_the_work_hides_leaves_nothing() {
    let bank = Bank::small(CONNECTIONS).await;
    for _ in 0..ROUNDS {
        let work = bank.once("k", conflict(), |work| {
            Box::pin(async move {
                begin_work(work).await?;
                let _ = work.execute("INSERT INTO account VALUES ('anna', 0)", &[]).await;
                Ok(completed("done"))
            })
        });
        let error = work.await.unwrap_err();
        assert!(matches!(&error, OnceError::Work(_)), "{error:?}");
    }
    assert_nothing_left(&bank).await;
}

/// A failure must not be reported as done.
#[tokio::test]
async fn work_that_ends_the_transaction_by_itself_leaves_nothing() {
    let bank = Bank::small(CONNECTIONS).await;
    for _ in 0..ROUNDS {
        let work = bank.once("k", conflict(), |work| {
            Box::pin(async move {
                begin_work(work).await?;
                work.client().batch_execute("ROLLBACK").await?;
                Ok(completed("done"))
            })
        });
        let error = work.await.unwrap_err();
        assert!(matches!(&error, OnceError::Work(_)), "{error:?}");
    }
    assert_nothing_left(&bank).await;
}

#[tokio::test]
async fn failed_for_now_and_unknown_leave_nothing() {
    for outcome in [Outcome::FailedForNow(Reply::new("later")), Outcome::Unknown(Reply::new("?"))] {
        let bank = Bank::small(CONNECTIONS).await;
        for _ in 0..ROUNDS {
            let work = bank.once("k", conflict(), |work| {
                let outcome = outcome.clone();
                Box::pin(async move {
                    begin_work(work).await?;
                    Ok(outcome)
                })
            });
            let expected = Answer::Released { outcome: outcome.clone(), fence: Fence::FIRST };
            assert_eq!(work.await.unwrap(), expected);
        }
        assert_nothing_left(&bank).await;
    }
}

/// Starts work in a task of its own.
fn start<W>(bank: &Bank, work: W) -> JoinHandle<Result<Answer, OnceError>>
where
    W: for<'w> FnMut(&'w mut Work<'_, Tx>) -> WorkFuture<'w> + Send + 'static,
{
    let pool = bank.pool.clone();
    tokio::spawn(async move { pool.once(id("k"), body("100"), conflict(), work).await })
}

#[tokio::test]
async fn work_that_is_dropped_between_two_statements_leaves_nothing() {
    let bank = Bank::small(CONNECTIONS).await;
    for round in 0..ROUNDS {
        let gate = Gate::new();
        let inside = gate.clone();
        let task = start(&bank, move |work| {
            let gate = inside.clone();
            Box::pin(async move {
                begin_work(work).await?;
                gate.pass().await;
                Ok(completed("done"))
            })
        });
        reached(&gate, &task, round).await;
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        bank.quiet().await;
    }
    assert_nothing_left(&bank).await;
}

/// Waits for the gate, unless the work ends before.
async fn reached(gate: &Gate, task: &JoinHandle<Result<Answer, OnceError>>, round: usize) {
    let ended = until("the work ends", async || task.is_finished());
    tokio::select! {
        () = gate.reached() => {}
        () = ended => panic!("round {round}: it ended early"),
    }
}

/// The server is busy with the statement, and looks at nothing else.
#[tokio::test]
async fn work_that_is_dropped_in_a_statement_leaves_nothing() {
    let bank = Bank::small(CONNECTIONS).await;
    let asleep = format!(
        "SELECT count(*) FROM pg_stat_activity
         WHERE application_name = '{}' AND wait_event = 'PgSleep'",
        bank.schema
    );
    for _ in 0..2 {
        let task = start(&bank, |work| {
            Box::pin(async move {
                begin_work(work).await?;
                work.query("SELECT pg_sleep(600)", &[]).await?;
                Ok(completed("done"))
            })
        });
        until("it sleeps", async || bank.number(&asleep).await == 1).await;
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        bank.quiet().await;
    }
    assert_nothing_left(&bank).await;
}

#[tokio::test]
async fn work_that_panics_leaves_nothing() {
    let bank = Bank::small(CONNECTIONS).await;
    for _ in 0..ROUNDS {
        let task = start(&bank, |work| {
            Box::pin(async move {
                begin_work(work).await?;
                panic!("on purpose")
            })
        });
        assert!(task.await.unwrap_err().is_panic());
        bank.quiet().await;
    }
    assert_nothing_left(&bank).await;
}

/// Ends its own connection in the first call, and does the work in the second.
#[tokio::test]
async fn work_whose_connection_breaks_is_tried_again_and_done_once() {
    let mut bank = Bank::small(CONNECTIONS).await;
    bank.pool = bank.pool.retry(STUBBORN);
    for round in 0..ROUNDS {
        let calls = AtomicU32::new(0);
        let key = format!("k-{round}");
        let work = bank.once(&key, conflict(), |work| {
            let call = calls.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move {
                begin_work(work).await?;
                if call == 0 {
                    work.query("SELECT pg_terminate_backend(pg_backend_pid())", &[]).await?;
                }
                Ok(completed("done"))
            })
        });
        let answer = work.await.unwrap();
        assert!(is_executed(&answer), "{answer:?}");
        assert_eq!(calls.into_inner(), 2);
    }
    let rounds = i64::try_from(ROUNDS).unwrap();
    assert_eq!(bank.counts().await, [rounds, rounds, rounds]);
}

#[tokio::test]
async fn connections_that_broke_while_idle_are_replaced() {
    let mut bank = Bank::small(CONNECTIONS).await;
    bank.pool = bank.pool.retry(Retry::NEVER);
    let kill = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
         WHERE application_name = '{}'",
        bank.schema
    );
    for round in 0..3 {
        let work = bank.once(&format!("k-{round}"), conflict(), deposit).await.unwrap();
        assert!(is_executed(&work), "{work:?}");
        assert!(bank.number(&kill).await >= 1, "the pool had a connection");
    }
    assert_eq!(bank.counts().await, [3, 0, 3]);
}
