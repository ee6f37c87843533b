//! I10: every resource has a limit, and reaching it has a distinct error.

use std::sync::Arc;
use std::time::Duration;

use semel_core::{Key, RecordId, Scope};
use semel_engine::{Answer, EngineError, Limits};
use semel_store::{CacheLimits, Cached, Clock, MemoryStore, SteadyClock};
use tokio::time::Instant;

use crate::support::{
    Effect, Verb, completed, conflict, engine_with, fingerprint, limited, memory, never, once,
    spawn_once, until, wait,
};

const PATIENT: Duration = Duration::from_mins(1);

#[tokio::test(start_paused = true)]
async fn an_execution_beyond_the_limit_is_refused_before_its_claim() {
    let (engine, store) = limited(&memory(), Limits { executions_max: 1, ..Limits::default() });
    let effect = Effect::gated();
    let first = spawn_once(&engine, &conflict(), effect.work(completed("first")));
    effect.started().await;
    let refused = once(&engine, &conflict(), never).await;
    assert!(matches!(refused, Err(EngineError::TooManyExecutions { max: 1 })));
    assert_eq!(store.calls(Verb::Claim), 1);
    effect.finish();
    first.await.unwrap().unwrap();
    let again = once(&engine, &conflict(), never).await.unwrap();
    assert!(matches!(again, Answer::Replayed { .. }));
}

/// A retry of a record in the cache must not be refused because other attempts use all slots.
#[tokio::test(start_paused = true)]
async fn a_cached_outcome_is_replayed_at_the_limit_of_executions() {
    let clock: Arc<dyn Clock> = Arc::new(SteadyClock::start());
    let cached = Cached::new(MemoryStore::with_clock(clock.clone()), clock, CacheLimits::default());
    let engine = engine_with(cached, Limits { executions_max: 1, ..Limits::default() });
    let attempt = |name: &str| {
        let id = RecordId::new("test", &Scope::global(), &Key::parse(name).unwrap());
        engine.attempt(id, fingerprint("pay 100"))
    };
    let done = |_| async { completed("done") };
    engine.once(attempt("settled"), &conflict(), done).await.unwrap();
    let effect = Effect::gated();
    let (busy, work) = (engine.clone(), effect.work(completed("slow")));
    let slow = attempt("slow");
    let slow = tokio::spawn(async move { busy.once(slow, &conflict(), work).await });
    effect.started().await;
    let replayed = engine.once(attempt("settled"), &conflict(), never).await.unwrap();
    assert!(matches!(replayed, Answer::Replayed { .. }));
    let refused = engine.once(attempt("new"), &conflict(), never).await;
    assert!(matches!(refused, Err(EngineError::TooManyExecutions { max: 1 })));
    effect.finish();
    slow.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_waiter_beyond_the_limit_does_not_wait() {
    for limits in [
        Limits { waiters_max: 1, ..Limits::default() },
        Limits { waiters_per_record_max: 1, ..Limits::default() },
    ] {
        let (engine, _store) = limited(&memory(), limits);
        let effect = Effect::gated();
        let first = spawn_once(&engine, &conflict(), effect.work(completed("first")));
        effect.started().await;
        let waiter = spawn_once(&engine, &wait(PATIENT), never);
        until("it waits", || engine.waiting() == 1).await;
        let began = Instant::now();
        let refused = once(&engine, &wait(PATIENT), never).await.unwrap();
        assert!(matches!(refused, Answer::InFlight { .. }));
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert_eq!(engine.waiting(), 1);
        effect.finish();
        first.await.unwrap().unwrap();
        waiter.await.unwrap().unwrap();
        assert_eq!(engine.waiting(), 0);
    }
}

/// Otherwise duplicates of slow work would block all other work.
#[tokio::test(start_paused = true)]
async fn waiters_take_no_slots_of_executions() {
    let (engine, _store) = limited(&memory(), Limits { executions_max: 2, ..Limits::default() });
    let effect = Effect::gated();
    let first = spawn_once(&engine, &conflict(), effect.work(completed("first")));
    effect.started().await;
    let mut waiters = Vec::new();
    for number in 1..=5 {
        waiters.push(spawn_once(&engine, &wait(PATIENT), never));
        until("it waits", || engine.waiting() == number).await;
    }
    assert_eq!(engine.running(), 1);
    let other = engine.attempt(RecordId::from_bytes([8; 32]), fingerprint("request"));
    let work = Effect::new().work(completed("other"));
    let answer = engine.once(other, &conflict(), work).await.unwrap();
    assert!(matches!(answer, Answer::Executed { .. }));
    effect.finish();
    first.await.unwrap().unwrap();
}
