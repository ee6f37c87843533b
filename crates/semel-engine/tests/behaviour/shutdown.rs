//! Shutdown: no attempt begins, and running work is settled.

use std::time::Duration;

use semel_core::{Reply, State};
use semel_engine::{Answer, EngineError, ShutdownReport, Stored};
use tokio::time::Instant;

use crate::support::{
    Effect, Fault, LEASE, Verb, completed, conflict, engine, never, once, settle_down, settled,
    spawn_once, state, until, wait,
};

const CLEAN: ShutdownReport = ShutdownReport { left: 0 };

#[tokio::test(start_paused = true)]
async fn running_work_is_settled_and_new_work_is_refused() {
    let (engine, store) = engine();
    let effect = Effect::gated();
    let first = spawn_once(&engine, &conflict(), effect.work(completed("first")));
    effect.started().await;
    let closing = engine.clone();
    let shutdown = tokio::spawn(async move { closing.shutdown(Duration::from_mins(1)).await });
    settle_down().await;
    assert!(!shutdown.is_finished());

    let claims = store.calls(Verb::Claim);
    let refused = once(&engine, &conflict(), never).await;
    assert!(matches!(refused, Err(EngineError::ShuttingDown)));
    assert_eq!(store.calls(Verb::Claim), claims, "the store was touched");

    tokio::time::sleep(LEASE * 2).await;
    effect.finish();
    let answer = first.await.unwrap().unwrap();
    assert_eq!(answer.reply(), Some(&Reply::new("first")));
    assert_eq!(shutdown.await.unwrap(), CLEAN);
    assert_eq!(state(store.memory()).await, Some(State::Settled(settled("first"))));
}

#[tokio::test(start_paused = true)]
async fn the_report_counts_the_attempts_left_at_the_deadline() {
    let (engine, _store) = engine();
    let effect = Effect::gated();
    let first = spawn_once(&engine, &conflict(), effect.work(completed("first")));
    effect.started().await;
    let began = Instant::now();
    let report = engine.shutdown(Duration::from_secs(5)).await;
    assert_eq!(report, ShutdownReport { left: 1 });
    assert_eq!(began.elapsed(), Duration::from_secs(5));
    assert_eq!(engine.running(), 1);

    // The work that was left goes on, and a second shutdown waits for it.
    effect.finish();
    assert_eq!(engine.shutdown(Duration::from_secs(5)).await, CLEAN);
    let answer = first.await.unwrap().unwrap();
    assert!(matches!(answer, Answer::Executed { stored: Stored::Durable, .. }));
}

#[tokio::test(start_paused = true)]
async fn waiters_are_answered_promptly() {
    let (engine, _store) = engine();
    let effect = Effect::gated();
    let first = spawn_once(&engine, &conflict(), effect.work(completed("first")));
    effect.started().await;
    let waiter = spawn_once(&engine, &wait(Duration::from_mins(1)), never);
    until("it waits", || engine.waiting() == 1).await;
    let began = Instant::now();
    let report = engine.shutdown(Duration::from_secs(5)).await;
    assert_eq!(report.left, 1, "only the execution");
    let answer = waiter.await.unwrap().unwrap();
    assert!(matches!(answer, Answer::InFlight { .. }));
    assert_eq!(began.elapsed(), Duration::from_secs(5));
    effect.finish();
    first.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn settling_in_the_background_is_waited_for() {
    let (engine, store) = engine();
    store.fail([Verb::Settle], Fault::Unavailable);
    let work = Effect::new().work(completed("first"));
    let answer = once(&engine, &conflict(), work).await.unwrap();
    assert!(matches!(answer, Answer::Executed { stored: Stored::NotYet, .. }));
    let report = engine.shutdown(Duration::from_secs(30)).await;
    assert_eq!(report, ShutdownReport { left: 1 });
    store.mend();
    assert_eq!(engine.shutdown(Duration::from_secs(30)).await, CLEAN);
    assert_eq!(state(store.memory()).await, Some(State::Settled(settled("first"))));
}
