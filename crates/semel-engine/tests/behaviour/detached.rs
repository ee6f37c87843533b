//! I9 and trap 3: a caller that leaves loses the answer and nothing else.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use semel_core::{Outcome, Policy, Reply, State};
use semel_engine::{Answer, Engine, Stored};
use semel_store::MemoryStore;

use crate::support::{
    Answered, Effect, RECORD, Verb, completed, conflict, engine, engine_over, idle, once, policy,
    settle_down, settled, spawn_once, until, wait,
};

/// Polls the future `polls` times, letting other tasks run in between, and then drops it. `None` if
/// it had not completed by then.
async fn leave_after<F: Future>(future: F, polls: usize) -> Option<F::Output> {
    let mut future = pin!(future);
    for _ in 0..polls {
        let polled = std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context)));
        if let Poll::Ready(output) = polled.await {
            return Some(output);
        }
        tokio::task::yield_now().await;
    }
    None
}

/// Runs `scene` with callers that leave after 0, 1, 2, … polls, until one stays to the end.
async fn leave_at_every_moment<F>(scene: impl Fn(Engine, usize) -> F)
where
    F: Future<Output = Option<Answered>>,
{
    for yields in 0..4 {
        for polls in 0.. {
            assert!(polls < 1_000, "the call never completes");
            let (engine, store) = engine();
            store.yield_in(Verb::ALL, yields);
            if scene(engine, polls).await.is_some() {
                break;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_at_any_moment_loses_no_outcome() {
    leave_at_every_moment(|engine, polls| async move {
        let (effect, policy) = (Effect::new(), conflict());
        let first = once(&engine, &policy, effect.work(completed("first")));
        let answered = leave_after(first, polls).await;
        idle(&engine).await;
        // A call that was never polled has not begun; any other has run to its settlement.
        assert_eq!(effect.runs(), usize::from(polls > 0), "{polls}");

        let retry = once(&engine, &policy, effect.work(completed("first")));
        let retried = retry.await.unwrap();
        assert_eq!(effect.runs(), 1, "{polls}");
        assert_eq!(retried.reply(), Some(&Reply::new("first")), "after {polls} polls");
        assert_eq!(matches!(retried, Answer::Replayed { .. }), polls > 0, "{polls}");
        assert_eq!(engine.running(), 0);
        answered
    })
    .await;
}

async fn state_of(engine: &Engine) -> Option<State> {
    engine.store().inspect(RECORD).await.unwrap().map(|record| record.state)
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_at_any_moment_leaks_no_lease() {
    leave_at_every_moment(|engine, polls| async move {
        let effect = Effect::new();
        let outcome = Outcome::FailedForNow(Reply::new("later"));
        let answered = leave_after(once(&engine, &conflict(), effect.work(outcome)), polls).await;
        idle(&engine).await;
        let left = state_of(&engine).await;
        assert_eq!(left, (polls > 0).then_some(State::Released), "{polls}");
        answered
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_leaves_at_any_moment_leaks_no_lease() {
    leave_at_every_moment(|engine, polls| async move {
        let (holder, waiter) = (Effect::gated(), Effect::new());
        let outcome = Outcome::FailedForNow(Reply::new("later"));
        let first = spawn_once(&engine, &conflict(), holder.work(outcome));
        holder.started().await;

        let patient = wait(Duration::from_secs(9));
        let second = once(&engine, &patient, waiter.work(completed("second")));
        let mut second = Box::pin(second);
        let early = leave_after(&mut second, polls / 2).await;
        holder.finish();
        let answered = match early {
            Some(answer) => Some(answer),
            None => leave_after(second, polls - polls / 2).await,
        };
        first.await.unwrap().unwrap();
        idle(&engine).await;
        // Either the waiter never became the executor, or it ran to its settlement.
        let expected = match waiter.runs() {
            0 => State::Released,
            _ => State::Settled(settled("second")),
        };
        assert_eq!(state_of(&engine).await, Some(expected), "{polls}");
        answered
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_caller_left_stops_waiting() {
    let (engine, _store) = engine();
    let effect = Effect::gated();
    let first = spawn_once(&engine, &conflict(), effect.work(completed("first")));
    effect.started().await;
    let waiter =
        spawn_once(&engine, &wait(Duration::from_mins(1)), effect.work(completed("second")));
    until("it waits", || engine.waiting() == 1).await;

    waiter.abort();
    settle_down().await;
    assert_eq!(engine.waiting(), 0);
    effect.finish();
    first.await.unwrap().unwrap();
    assert_eq!(effect.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_no_longer_runs_once_it_is_answered() {
    let (engine, store) = engine();
    let effect = Effect::new();
    let answer = once(&engine, &conflict(), effect.work(completed("first"))).await;
    assert_eq!(engine.running(), 0);
    assert!(matches!(answer, Ok(Answer::Executed { stored: Stored::Durable, .. })));
    assert_eq!(store.calls(Verb::Claim), 1);
    assert_eq!(store.calls(Verb::Settle), 1);
}

/// Work that blocks its thread must not lose its lease (trap 17).
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn work_that_blocks_its_thread_keeps_its_lease() {
    let (engine, store) = engine_over(&MemoryStore::new());
    let short: Policy = policy().lease(Duration::from_millis(60)).build().unwrap();
    let (go, stop) = std::sync::mpsc::channel();
    let first = spawn_once(&engine, &short, move |_| async move {
        stop.recv().unwrap();
        completed("first")
    });
    until("the lease was renewed", || store.calls(Verb::Renew) >= 3).await;
    go.send(()).unwrap();
    first.await.unwrap().unwrap();
}
