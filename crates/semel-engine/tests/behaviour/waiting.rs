//! Duplicates that wait, and those that do not.

use std::time::Duration;

use semel_core::{InFlight, OnStoreDown, Outcome, Reply};
use semel_engine::{Answer, EngineError, Limits};
use semel_store::MemoryStore;
use tokio::time::{Instant, sleep};

use crate::support::{
    Effect, Fault, LEASE, RECORD, Verb, completed, conflict, engine, engine_over, engine_with,
    fingerprint, idle, memory, never, once, policy, settle_down, settled, spawn_once, until, wait,
};

const PATIENT: Duration = Duration::from_mins(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fifty_attempts_at_once_are_one_execution_and_fifty_equal_answers() {
    let engine = engine_with(MemoryStore::new(), Limits::default());
    let effect = Effect::gated();
    let attempts: Vec<_> = (0..50)
        .map(|number| {
            let work = effect.work(completed(&format!("by attempt {number}")));
            spawn_once(&engine, &wait(PATIENT), work)
        })
        .collect();
    until("all wait", || engine.waiting() == 49).await;
    effect.finish();
    let mut replies = Vec::new();
    for attempt in attempts {
        replies.push(attempt.await.unwrap().unwrap().reply().cloned());
    }
    assert_eq!(effect.runs(), 1);
    assert!(replies[0].is_some());
    assert!(replies.iter().all(|reply| *reply == replies[0]));
    idle(&engine).await;
}

/// Without a gate: the wake-up may come at any moment of the claim.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_waiter_misses_its_wake_up() {
    for _ in 0..200 {
        let engine = engine_with(MemoryStore::new(), Limits::default());
        let effect = Effect::new();
        let attempts: Vec<_> = (0..8)
            .map(|_| spawn_once(&engine, &wait(PATIENT), effect.work(completed("first"))))
            .collect();
        for attempt in attempts {
            let answer = attempt.await.unwrap().unwrap();
            assert_eq!(answer.reply(), Some(&Reply::new("first")));
        }
        assert_eq!(effect.runs(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_in_the_same_process_is_woken_at_once() {
    let (engine, store) = engine();
    let effect = Effect::gated();
    let first = spawn_once(&engine, &conflict(), effect.work(completed("first")));
    effect.started().await;
    let waiter = spawn_once(&engine, &wait(PATIENT), never);
    sleep(Duration::from_secs(20)).await;
    settle_down().await;
    assert_eq!(store.calls(Verb::Claim), 1, "no claim is sent while the record executes here");
    effect.finish();
    let finished = Instant::now();
    let replayed = waiter.await.unwrap().unwrap();
    assert_eq!(finished.elapsed(), Duration::ZERO);
    assert_eq!(store.calls(Verb::Claim), 2, "the store was asked once, for the outcome");
    let Answer::Executed { settlement, expires, .. } = first.await.unwrap().unwrap() else {
        panic!("not executed")
    };
    let expected = Answer::Replayed { settlement, expires };
    assert_eq!(replayed, expected);
}

/// The outcome is settled at every moment of the waiter's claim, also between the store's decision
/// and its answer. No time passes, so no poll was needed.
#[tokio::test(start_paused = true)]
async fn an_outcome_settled_during_the_waiters_claim_is_not_missed() {
    for moment in 0..40 {
        let (engine, store) = engine();
        store.yield_in([Verb::Claim], 10);
        let effect = Effect::gated();
        let first = spawn_once(&engine, &conflict(), effect.work(completed("first")));
        effect.started().await;
        let waiter = spawn_once(&engine, &wait(PATIENT), never);
        for _ in 0..moment {
            tokio::task::yield_now().await;
        }
        effect.finish();
        let finished = Instant::now();
        let answer = waiter.await.unwrap().unwrap();
        assert_eq!(finished.elapsed(), Duration::ZERO, "at moment {moment}");
        assert_eq!(answer.reply(), Some(&Reply::new("first")));
        first.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_on_another_node_gets_the_outcome_by_polling() {
    let memory = memory();
    let ((first, _), (second, second_store)) = (engine_over(&memory), engine_over(&memory));
    let effect = Effect::gated();
    let executing = spawn_once(&first, &conflict(), effect.work(completed("first")));
    effect.started().await;
    let waiter = spawn_once(&second, &wait(PATIENT), never);
    sleep(Duration::from_secs(10)).await;
    let polls = second_store.calls(Verb::Claim);
    assert!((120..=260).contains(&polls), "{polls} polls in ten seconds");
    effect.finish();
    executing.await.unwrap().unwrap();
    let settled_at = Instant::now();
    let answer = waiter.await.unwrap().unwrap();
    assert!(settled_at.elapsed() <= Duration::from_millis(81));
    assert_eq!(answer.reply(), Some(&Reply::new("first")));
}

/// How often many waiters on another node poll in ten seconds, how long after the settlement each is
/// answered, and how often they polled after it.
async fn waiters_on_another_node(waiters: usize, listening: bool) -> (usize, Vec<Duration>, usize) {
    let memory = memory();
    let ((first, _), (second, store)) = (engine_over(&memory), engine_over(&memory));
    store.listen(listening);
    let effect = Effect::gated();
    let executing = spawn_once(&first, &conflict(), effect.work(completed("first")));
    effect.started().await;
    let tasks: Vec<_> = (0..waiters)
        .map(|_| {
            let waiter = spawn_once(&second, &wait(PATIENT), never);
            tokio::spawn(async move {
                let answer = waiter.await.unwrap().unwrap();
                assert_eq!(answer.reply(), Some(&Reply::new("first")));
                Instant::now()
            })
        })
        .collect();
    until("all wait", || second.waiting() == waiters).await;
    let before = store.calls(Verb::Claim);
    sleep(Duration::from_secs(10)).await;
    let polls = store.calls(Verb::Claim) - before;
    effect.finish();
    executing.await.unwrap().unwrap();
    let (settled_at, asked) = (Instant::now(), store.calls(Verb::Claim));
    store.notify();
    let mut delays = Vec::new();
    for waiter in tasks {
        delays.push(waiter.await.unwrap() - settled_at);
    }
    delays.sort();
    (polls, delays, store.calls(Verb::Claim) - asked)
}

/// They take turns, and the first one that gets the outcome notifies the others.
#[tokio::test(start_paused = true)]
async fn many_waiters_on_another_node_share_their_polls() {
    let (polls, delays, asked) = waiters_on_another_node(1_000, false).await;
    assert!(polls < 6_000, "{polls} polls in ten seconds");
    assert!(delays[500] < Duration::from_millis(50), "{:?} in the median", delays[500]);
    assert!(asked < 50, "{asked} polls after one knew");
}

/// With notifications of the store they hardly poll.
#[tokio::test(start_paused = true)]
async fn many_waiters_on_another_node_are_notified_of_the_settlement() {
    let (polls, delays, asked) = waiters_on_another_node(1_000, true).await;
    assert!(polls < 6_000, "{polls} polls in ten seconds");
    assert!(delays[500] < Duration::from_millis(50), "{:?} in the median", delays[500]);
    assert!(asked < 50, "{asked} polls after one knew");
    let (polls, delays, _) = waiters_on_another_node(1, true).await;
    assert!(polls <= 25, "{polls} polls in ten seconds");
    assert!(delays[0] <= Duration::from_millis(1), "{delays:?}");
}

/// A lost notification of the store is made up for by a poll.
#[tokio::test(start_paused = true)]
async fn a_waiter_whose_notification_got_lost_gets_the_outcome_by_polling() {
    let memory = memory();
    let ((first, _), (second, store)) = (engine_over(&memory), engine_over(&memory));
    store.listen(true);
    let effect = Effect::gated();
    let executing = spawn_once(&first, &conflict(), effect.work(completed("first")));
    effect.started().await;
    let waiter = spawn_once(&second, &wait(PATIENT), never);
    until("it waits", || second.waiting() == 1).await;
    effect.finish();
    executing.await.unwrap().unwrap();
    let settled_at = Instant::now();
    waiter.await.unwrap().unwrap();
    assert!(settled_at.elapsed() <= Duration::from_millis(1_001));
}

/// Regression: a gateway without Redis in front of PostgreSQL publishes nothing there, and waiters that subscribed
/// to Redis polled only once a second.
#[tokio::test(start_paused = true)]
async fn a_waiter_with_an_incomplete_watch_polls_more_often() {
    let memory = memory();
    let ((first, _), (second, store)) = (engine_over(&memory), engine_over(&memory));
    store.listen_partially();
    let effect = Effect::gated();
    let executing = spawn_once(&first, &conflict(), effect.work(completed("first")));
    effect.started().await;
    let waiter = spawn_once(&second, &wait(PATIENT), never);
    until("it waits", || second.waiting() == 1).await;
    let before = store.calls(Verb::Claim);
    sleep(Duration::from_secs(10)).await;
    let polls = store.calls(Verb::Claim) - before;
    assert!((40..=90).contains(&polls), "{polls} polls in ten seconds");
    effect.finish();
    executing.await.unwrap().unwrap();
    let settled_at = Instant::now();
    waiter.await.unwrap().unwrap();
    assert!(settled_at.elapsed() <= Duration::from_millis(251));
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_and_leaves_the_execution_alone() {
    let (engine, _store) = engine();
    let effect = Effect::gated();
    let first = spawn_once(&engine, &conflict(), effect.work(completed("first")));
    effect.started().await;
    let began = Instant::now();
    let waiter = once(&engine, &wait(Duration::from_secs(10)), never).await;
    assert!(matches!(waiter, Ok(Answer::InFlight { .. })));
    assert_eq!(began.elapsed(), Duration::from_secs(10));
    effect.finish();
    let answer = first.await.unwrap().unwrap();
    assert!(matches!(answer, Answer::Executed { .. }));
}

#[tokio::test(start_paused = true)]
async fn conflict_and_accepted_do_not_wait() {
    let (engine, _store) = engine();
    let effect = Effect::gated();
    let first = spawn_once(&engine, &conflict(), effect.work(completed("first")));
    effect.started().await;
    let began = Instant::now();
    for in_flight in [InFlight::Conflict, InFlight::Accepted] {
        let policy = policy().in_flight(in_flight).build().unwrap();
        let answer = once(&engine, &policy, never).await.unwrap();
        assert!(matches!(answer, Answer::InFlight { .. }));
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
    effect.finish();
    first.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_waiter_executes_when_the_lease_is_released() {
    let (engine, _store) = engine();
    let (effect, retry) = (Effect::gated(), Effect::new());
    let later = Outcome::FailedForNow(Reply::new("later"));
    let first = spawn_once(&engine, &conflict(), effect.work(later));
    effect.started().await;
    let waiters: Vec<_> = (0..20)
        .map(|_| spawn_once(&engine, &wait(PATIENT), retry.work(completed("second"))))
        .collect();
    until("all wait", || engine.waiting() == 20).await;
    effect.finish();
    assert!(matches!(first.await.unwrap().unwrap(), Answer::Released { .. }));
    for waiter in waiters {
        let answer = waiter.await.unwrap().unwrap();
        assert_eq!(answer.reply(), Some(&Reply::new("second")));
    }
    assert_eq!((effect.runs(), retry.runs()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_executes_when_the_holder_is_gone() {
    let memory = memory();
    let ((first, first_store), (second, _)) = (engine_over(&memory), engine_over(&memory));
    let (effect, retry) = (Effect::gated(), Effect::new());
    let _lost = spawn_once(&first, &conflict(), effect.work(completed("first")));
    effect.started().await;
    first_store.fail_all(Fault::Hang);
    let began = Instant::now();
    let work = retry.work(completed("second"));
    let answer = once(&second, &wait(PATIENT), work).await.unwrap();
    assert!(matches!(answer, Answer::Executed { .. }));
    assert!(began.elapsed() <= LEASE + Duration::from_millis(260));
}

/// Trap 15: a waiter knows that another execution was in flight, so it never fails open.
#[tokio::test(start_paused = true)]
async fn a_waiter_outlives_an_outage_and_never_bypasses() {
    let (engine, store) = engine();
    let open = policy()
        .in_flight(InFlight::Wait(PATIENT))
        .on_store_down(OnStoreDown::Open)
        .build()
        .unwrap();
    let effect = Effect::gated();
    let first = spawn_once(&engine, &open, effect.work(completed("first")));
    effect.started().await;
    let waiter = spawn_once(&engine, &open, never);
    until("it waits", || engine.waiting() == 1).await;
    store.fail_all(Fault::TimedOut);
    sleep(Duration::from_secs(2)).await;
    assert!(!waiter.is_finished());
    store.mend();
    effect.finish();
    first.await.unwrap().unwrap();
    let answer = waiter.await.unwrap().unwrap();
    assert_eq!(answer.reply(), Some(&Reply::new("first")));
    idle(&engine).await;
}

/// A damaged store ends the wait, and that is an error also where the policy is to fail open.
#[tokio::test(start_paused = true)]
async fn a_waiter_on_a_damaged_store_does_not_bypass() {
    let memory = memory();
    let ((engine, store), (other, _)) = (engine_over(&memory), engine_over(&memory));
    let open = policy()
        .in_flight(InFlight::Wait(PATIENT))
        .on_store_down(OnStoreDown::Open)
        .build()
        .unwrap();
    let effect = Effect::gated();
    let first = spawn_once(&other, &open, effect.work(completed("first")));
    effect.started().await;
    let waiter = spawn_once(&engine, &open, never);
    until("it waits", || engine.waiting() == 1).await;
    store.fail([Verb::Claim], Fault::Corrupt);
    let answer = waiter.await.unwrap();
    assert!(matches!(answer, Err(EngineError::Store(_))), "never executed: {answer:?}");
    effect.finish();
    first.await.unwrap().unwrap();
}

/// I8: a record expires while a duplicate waits, and its key begins a new life with another request,
/// whose outcome is published in this process. It is not for the waiter.
#[tokio::test(start_paused = true)]
async fn a_waiter_is_not_given_another_requests_outcome() {
    let memory = memory();
    let ((first, first_store), (second, second_store)) =
        (engine_over(&memory), engine_over(&memory));
    let short = policy().ttl(LEASE * 2).in_flight(InFlight::Wait(PATIENT)).build().unwrap();
    let effect = Effect::gated();
    let _lost = spawn_once(&first, &short, effect.work(completed("first")));
    effect.started().await;
    first_store.fail_all(Fault::Hang);
    let waiter = spawn_once(&second, &short, never);
    until("it waits", || second.waiting() == 1).await;

    // The waiter's polls fail until the record has expired, and another request comes first.
    second_store.fail([Verb::Claim], Fault::Unavailable);
    sleep(LEASE * 3).await;
    // A poll that is due at this very moment fails, too.
    settle_down().await;
    second_store.mend();
    let other = second.attempt(RECORD, fingerprint("another request"));
    let answer = second.once(other, &short, Effect::new().work(completed("not yours")));
    assert!(matches!(answer.await, Ok(Answer::Executed { .. })));
    assert_eq!(waiter.await.unwrap().unwrap(), Answer::Mismatch);
}

#[tokio::test(start_paused = true)]
async fn waiters_see_only_what_is_durable() {
    let (engine, store) = engine();
    let effect = Effect::gated();
    let first = spawn_once(&engine, &conflict(), effect.work(completed("first")));
    effect.started().await;
    let waiter = spawn_once(&engine, &wait(PATIENT), never);
    until("it waits", || engine.waiting() == 1).await;
    store.fail([Verb::Settle], Fault::Unavailable);
    effect.finish();
    first.await.unwrap().unwrap();
    sleep(LEASE * 2).await;
    assert!(!waiter.is_finished(), "answered with an outcome that a crash could still undo");
    store.mend();
    let answer = waiter.await.unwrap().unwrap();
    assert!(
        matches!(&answer, Answer::Replayed { settlement, .. } if *settlement == settled("first"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_poll_was_granted_without_acknowledgement_executes_once() {
    let memory = memory();
    let ((first, _), (second, store)) = (engine_over(&memory), engine_over(&memory));
    let (effect, retry) = (Effect::gated(), Effect::new());
    let later = Outcome::FailedForNow(Reply::new("later"));
    let holder = spawn_once(&first, &conflict(), effect.work(later));
    effect.started().await;
    let work = retry.work(completed("second"));
    let waiter = spawn_once(&second, &wait(PATIENT), work);
    until("it waits", || second.waiting() == 1).await;
    store.fail([Verb::Claim], Fault::TimedOutApplied);
    effect.finish();
    holder.await.unwrap().unwrap();
    sleep(Duration::from_secs(1)).await;
    settle_down().await;
    assert_eq!(retry.runs(), 0, "it does not know of its lease");
    store.mend();
    let answer = waiter.await.unwrap().unwrap();
    assert!(matches!(answer, Answer::Executed { .. }));
    assert_eq!(retry.runs(), 1);
}
