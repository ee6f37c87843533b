//! A server that is frozen, or gone: every wait has an end (I10), and all is well when it is back.

use std::sync::Arc;
use std::time::Duration;

use semel_core::Outcome;
use semel_postgres::transaction::{BoxError, Isolation, OnceError, Retry, Tx, Work, WorkFuture};
use semel_testserver::Postgres;
use tokio::time::timeout;

use crate::bank::{Bank, STUBBORN, body, completed, conflict, deposit, id, never};
use crate::bank::{is_executed, is_in_flight, is_replayed};
use crate::gate::{Gate, LONG, until};

const VERB: Duration = Duration::from_secs(1);
/// Two waits, and some time for a slow machine: less than five waits.
const BOUND: Duration = Duration::from_millis(3_500);

/// A server of the test's own, and a bank on it that tries once.
async fn bank() -> (Arc<Postgres>, Bank) {
    let server = tokio::task::spawn_blocking(Postgres::start).await.unwrap().expect("a server");
    let url = format!("{}?connect_timeout=1&schema=silent", server.url());
    let limited = |options: semel_postgres::Options| options.verb_timeout(VERB);
    let mut bank = Bank::at(&url, Isolation::Default, limited).await;
    bank.pool = bank.pool.retry(Retry::NEVER);
    (Arc::new(server), bank)
}

/// Work that freezes the server when it is done, and ends in some way.
fn freezes(
    server: &Arc<Postgres>,
    end: fn() -> Result<Outcome, BoxError>,
) -> impl for<'w> FnMut(&'w mut Work<'_, Tx>) -> WorkFuture<'w> + Send {
    move |work| {
        let server = server.clone();
        Box::pin(async move {
            deposit(work).await?;
            server.pause()?;
            end()
        })
    }
}

/// The server goes on, and the pool with it.
async fn goes_on(server: &Postgres, bank: &Bank) {
    server.resume().unwrap();
    let answer = bank.once("after", conflict(), deposit).await.unwrap();
    assert!(is_executed(&answer), "{answer:?}");
}

/// Not one connection after the other: if one is silent, all are.
#[tokio::test]
async fn a_claim_does_not_wait_for_ever() {
    let (server, bank) = bank().await;
    let (gate, mut run_many) = (Gate::new(), tokio::task::JoinSet::new());
    for number in 0..5 {
        let (pool, gate) = (bank.pool.clone(), gate.clone());
        run_many.spawn(async move {
            let key = id(&format!("k-{number}"));
            let work = pool.once(key, body("100"), conflict(), |work| {
                let gate = gate.clone();
                Box::pin(async move {
                    gate.pass().await;
                    deposit(work).await
                })
            });
            work.await.unwrap()
        });
    }
    for _ in 0..5 {
        gate.reached().await;
    }
    gate.open();
    run_many.join_all().await;

    server.pause().unwrap();
    let result = timeout(BOUND, bank.once("k", conflict(), never)).await.expect("an end");
    let Err(OnceError::Unavailable(_)) = result else { panic!("{result:?}") };
    goes_on(&server, &bank).await;
}

#[tokio::test]
async fn a_commit_does_not_wait_for_ever() {
    let (server, bank) = bank().await;
    let work = freezes(&server, || Ok(completed("done")));
    let result = timeout(BOUND, bank.once("k", conflict(), work)).await.expect("an end");
    let Err(OnceError::Lost(error)) = result else { panic!("{result:?}") };
    assert!(error.to_string().contains("no answer within 1s"), "{error}");
    goes_on(&server, &bank).await;
    let pool = bank.pool.clone().retry(STUBBORN);
    // It may still be committing.
    let once = async || pool.once(id("k"), body("100"), conflict(), deposit).await.unwrap();
    let mut answer = once().await;
    until("the outcome is known", async || {
        if is_in_flight(&answer) {
            answer = once().await;
        }
        !is_in_flight(&answer)
    })
    .await;
    assert!(is_executed(&answer) || is_replayed(&answer), "{answer:?}");
    // One for this key, and one for the other.
    assert_eq!(bank.counts().await, [2, 0, 2]);
}

#[tokio::test]
async fn a_rollback_does_not_wait_for_ever() {
    let (server, bank) = bank().await;
    let work = freezes(&server, || Err("no funds".into()));
    let result = timeout(BOUND, bank.once("k", conflict(), work)).await.expect("an end");
    let Err(OnceError::Work(error)) = result else { panic!("{result:?}") };
    assert_eq!(error.to_string(), "no funds");
    goes_on(&server, &bank).await;
    assert_eq!(bank.counts().await, [1, 0, 1]);
}

/// Nothing was asked yet, so it can be asked again.
#[tokio::test]
async fn a_server_that_is_started_again_is_waited_for() {
    let (server, bank) = bank().await;
    bank.once("before", conflict(), deposit).await.unwrap();
    let stopping = server.clone();
    tokio::task::spawn_blocking(move || stopping.stop_fast()).await.unwrap().unwrap();
    let result = bank.once("k", conflict(), never).await;
    let Err(OnceError::Unavailable(_)) = result else { panic!("{result:?}") };
    let pool = bank.pool.clone().retry(STUBBORN);
    let asking =
        tokio::spawn(async move { pool.once(id("k"), body("100"), conflict(), deposit).await });
    // Long enough for it to have been refused.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!asking.is_finished());
    let starting = server.clone();
    tokio::task::spawn_blocking(move || starting.start_again()).await.unwrap().unwrap();
    let answer = timeout(LONG, asking).await.expect("an end").unwrap().unwrap();
    assert!(is_executed(&answer), "{answer:?}");
}
