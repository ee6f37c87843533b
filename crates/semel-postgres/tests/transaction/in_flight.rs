//! Duplicates that come while the work runs: answered at once, or made to wait, and never executed.

use std::time::Duration;

use semel_core::Policy;
use semel_postgres::transaction::{Isolation, TransactionClaim, Tx, Work, WorkFuture};
use semel_store::Answer;
use tokio::task::JoinSet;

use crate::bank::{Bank, attempt, body, completed, conflict, deposit, id, wait};
use crate::bank::{is_executed, is_in_flight, is_replayed, never};
use crate::gate::{Gate, LONG, until};

/// Books an entry, and waits at the gate before it is done.
fn gated(gate: &Gate) -> impl for<'w> FnMut(&'w mut Work<'_, Tx>) -> WorkFuture<'w> + Send + use<> {
    let gate = gate.clone();
    move |work| {
        let gate = gate.clone();
        Box::pin(async move {
            work.execute("INSERT INTO entry VALUES (100)", &[]).await?;
            gate.pass().await;
            Ok(completed("done"))
        })
    }
}

/// Starts gated work, and waits until it is under way.
async fn under_way(bank: &Bank, gate: &Gate) -> JoinSet<Answer> {
    let (pool, work) = (bank.pool.clone(), gated(gate));
    let mut task = JoinSet::new();
    task.spawn(async move { pool.once(id("k"), body("100"), conflict(), work).await.unwrap() });
    gate.reached().await;
    task
}

#[tokio::test]
async fn a_duplicate_is_answered_at_once_while_the_work_runs() {
    let bank = Bank::open().await;
    let gate = Gate::new();
    let mut first = under_way(&bank, &gate).await;
    // Were one of them to wait for the work, this would never end.
    for _ in 0..20 {
        let answer = bank.once("k", conflict(), never).await.unwrap();
        assert!(is_in_flight(&answer), "{answer:?}");
    }
    gate.open();
    assert!(is_executed(&first.join_next().await.unwrap().unwrap()));
    let answer = bank.once("k", conflict(), never).await.unwrap();
    assert!(is_replayed(&answer), "{answer:?}");
    assert_eq!(bank.counts().await, [1, 0, 1]);
}

/// The same attempt fifty times, at once.
async fn run_many(bank: &Bank, policy: &Policy) -> Vec<Answer> {
    let mut run_many = JoinSet::new();
    for _ in 0..50 {
        let (pool, policy) = (bank.pool.clone(), policy.clone());
        run_many.spawn(async move { pool.once(id("k"), body("100"), &policy, deposit).await });
    }
    run_many.join_all().await.into_iter().map(Result::unwrap).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn of_fifty_at_once_one_executes() {
    let bank = Bank::open().await;
    let answers = run_many(&bank, conflict()).await;
    assert_eq!(answers.iter().filter(|answer| is_executed(answer)).count(), 1);
    for answer in answers.iter().filter(|answer| !is_executed(answer)) {
        assert!(is_in_flight(answer) || is_replayed(answer), "{answer:?}");
    }
    assert_eq!(bank.counts().await, [1, 0, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_fifty_waiting_duplicates_one_executes_and_all_get_its_outcome() {
    for isolation in [Isolation::ReadCommitted, Isolation::Serializable] {
        let bank = Bank::isolated(isolation).await;
        let answers = run_many(&bank, &wait(LONG)).await;
        let executed: Vec<_> = answers.iter().filter(|answer| is_executed(answer)).collect();
        assert_eq!(executed.len(), 1, "{isolation:?}");
        for answer in &answers {
            assert_eq!(answer.reply(), executed[0].reply(), "{isolation:?}: {answer:?}");
        }
        assert_eq!(bank.counts().await, [1, 0, 1], "{isolation:?}");
    }
}

#[tokio::test]
async fn waiting_duplicates_get_the_outcome_of_the_first() {
    let bank = Bank::open().await;
    let gate = Gate::new();
    let mut first = under_way(&bank, &gate).await;
    let mut waiters = JoinSet::new();
    for _ in 0..5 {
        let pool = bank.pool.clone();
        waiters.spawn(async move { pool.once(id("k"), body("100"), &wait(LONG), never).await });
    }
    until("all of them wait", async || bank.waiting().await == 5).await;
    gate.open();
    let executed = first.join_next().await.unwrap().unwrap();
    for answer in waiters.join_all().await {
        let answer = answer.unwrap();
        assert!(is_replayed(&answer) && answer.reply() == executed.reply(), "{answer:?}");
    }
}

/// In these isolations a transaction sees what was there when it began: before the first committed.
#[tokio::test]
async fn a_waiting_duplicate_does_not_execute_on_an_old_snapshot() {
    for isolation in [Isolation::RepeatableRead, Isolation::Serializable] {
        let bank = Bank::isolated(isolation).await;
        let gate = Gate::new();
        let mut first = under_way(&bank, &gate).await;
        let patient = wait(LONG);
        let opening = async {
            until("it waits", async || bank.waiting().await == 1).await;
            gate.open();
        };
        let (waited, ()) = tokio::join!(bank.once("k", &patient, never), opening);
        assert!(is_executed(&first.join_next().await.unwrap().unwrap()));
        let waited = waited.unwrap();
        assert!(is_replayed(&waited), "{isolation:?}: {waited:?}");
    }
}

#[tokio::test]
async fn a_waiting_duplicate_executes_if_the_first_fails() {
    let bank = Bank::open().await;
    let gate = Gate::new();
    let failing = bank.once("k", conflict(), |_| {
        let gate = gate.clone();
        Box::pin(async move {
            gate.pass().await;
            Err("no funds".into())
        })
    });
    let patient = wait(LONG);
    let waiting = async {
        gate.reached().await;
        bank.once("k", &patient, deposit).await
    };
    let opening = async {
        until("it waits", async || bank.waiting().await == 1).await;
        gate.open();
    };
    let (failed, waited, ()) = tokio::join!(failing, waiting, opening);
    assert!(failed.is_err());
    assert!(is_executed(&waited.unwrap()));
    assert_eq!(bank.counts().await, [1, 0, 1]);
}

#[tokio::test]
async fn a_wait_that_takes_too_long_ends_in_flight() {
    let bank = Bank::open().await;
    let gate = Gate::new();
    let mut first = under_way(&bank, &gate).await;
    let short = wait(Duration::from_millis(20));
    let answer = bank.once("k", &short, never).await.unwrap();
    assert!(is_in_flight(&answer), "{answer:?}");
    gate.open();
    assert!(is_executed(&first.join_next().await.unwrap().unwrap()));
}

#[tokio::test]
async fn a_wait_leaves_the_callers_lock_timeout_as_it_was() {
    let bank = Bank::open().await;
    let (same, mut first, mut second) = (bank.same(), bank.connect().await, bank.connect().await);
    let mut holder = first.transaction().await.unwrap();
    let claim = same.claim(&mut holder, &attempt("k"), conflict()).await.unwrap();
    assert!(matches!(claim, TransactionClaim::Execute(_)), "{claim:?}");
    // In vain, and then with success.
    for (limit, executes) in [(Duration::from_millis(20), false), (LONG, true)] {
        let mut tx = second.transaction().await.unwrap();
        tx.batch_execute("SET LOCAL lock_timeout = '77s'").await.unwrap();
        if executes {
            holder.batch_execute("ROLLBACK").await.unwrap();
        }
        let claim = same.claim(&mut tx, &attempt("k"), &wait(limit)).await.unwrap();
        assert_eq!(matches!(claim, TransactionClaim::Execute(_)), executes, "{claim:?}");
        let setting = tx.query_one("SHOW lock_timeout", &[]).await.unwrap();
        assert_eq!(setting.get::<_, &str>(0), "77s", "executes: {executes}");
        tx.rollback().await.unwrap();
        let setting = second.query_one("SHOW lock_timeout", &[]).await.unwrap();
        assert_eq!(setting.get::<_, &str>(0), "0", "executes: {executes}");
    }
}

#[tokio::test]
async fn replays_do_not_conflict_with_each_other() {
    let bank = Bank::open().await;
    bank.once("k", conflict(), deposit).await.unwrap();
    let (same, mut first, mut second) = (bank.same(), bank.connect().await, bank.connect().await);
    let (mut one, mut two) =
        (first.transaction().await.unwrap(), second.transaction().await.unwrap());
    for tx in [&mut one, &mut two] {
        let claim = same.claim(tx, &attempt("k"), conflict()).await.unwrap();
        assert!(matches!(claim, TransactionClaim::Replay { .. }), "{claim:?}");
    }
}
