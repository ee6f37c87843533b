//! Each outcome of the work: its effect on the record, and the client's answer.

use std::time::Duration;

use semel_core::{Fence, OnUnknown, Outcome, Policy, Reply, Settlement, State, invariants};
use semel_engine::{Answer, Execution, Stored};
use semel_store::Store as _;

use crate::support::{
    Effect, Fault, RECORD, Verb, completed, conflict, engine, fingerprint, idle, never, once,
    policy, settle_down, settled, spawn_once, state,
};

fn holding() -> Policy {
    policy().on_unknown(OnUnknown::Hold).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_retry_gets_the_bytes_of_the_first_answer() {
    let (engine, _store) = engine();
    let effect = Effect::new();
    let first = once(&engine, &conflict(), effect.work(completed("charge 1"))).await;
    let Ok(Answer::Executed { settlement, expires, fence: Fence::FIRST, stored: Stored::Durable }) =
        first
    else {
        panic!("{first:?}")
    };
    for _ in 0..3 {
        let again = once(&engine, &conflict(), never).await.unwrap();
        let expected = Answer::Replayed { settlement: settlement.clone(), expires };
        assert_eq!(again, expected);
    }
    assert_eq!(effect.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_permanent_failure_is_recorded_and_replayed() {
    let (engine, _store) = engine();
    let declined = Reply::new("card declined");
    let outcome = Outcome::Failed(declined.clone());
    once(&engine, &conflict(), Effect::new().work(outcome)).await.unwrap();
    let again = once(&engine, &conflict(), never).await.unwrap();
    assert!(
        matches!(again, Answer::Replayed { settlement: Settlement::Failed(reply), .. } if reply == declined)
    );
}

/// I6, trap 4.
#[tokio::test(start_paused = true)]
async fn an_outcome_is_durable_before_it_is_answered() {
    let (engine, store) = engine();
    store.fail([Verb::Settle], Fault::Hang);
    let first = spawn_once(&engine, &conflict(), Effect::new().work(completed("charge 1")));
    settle_down().await;
    assert_eq!(store.calls(Verb::Settle), 1);
    assert!(!first.is_finished(), "answered before the settlement");

    store.mend();
    let Answer::Executed { settlement, .. } = first.await.unwrap().unwrap() else {
        panic!("not executed")
    };
    let durable = store.memory().inspect(RECORD).await.unwrap();
    assert!(invariants::settle_first(durable.as_ref(), &settlement, false));
}

#[tokio::test(start_paused = true)]
async fn a_transient_failure_releases_the_lease() {
    let (engine, store) = engine();
    let later = Outcome::FailedForNow(Reply::new("try later"));
    let first = once(&engine, &conflict(), Effect::new().work(later.clone())).await.unwrap();
    let expected = Answer::Released { outcome: later, fence: Fence::FIRST };
    assert_eq!(first, expected);
    assert_eq!(state(store.memory()).await, Some(State::Released));

    let work = Effect::new().work(completed("charge 1"));
    let second = once(&engine, &conflict(), work).await.unwrap();
    let Answer::Executed { fence, .. } = second else { panic!("{second:?}") };
    assert_eq!(fence, Fence::FIRST.next());
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_is_released_or_held_by_policy() {
    let lost = || Outcome::Unknown(Reply::new("connection lost"));
    let (engine, store) = engine();
    let released = once(&engine, &conflict(), Effect::new().work(lost())).await.unwrap();
    let expected = Answer::Released { outcome: lost(), fence: Fence::FIRST };
    assert_eq!(released, expected);
    assert_eq!(state(store.memory()).await, Some(State::Released));

    let held = once(&engine, &holding(), Effect::new().work(lost())).await.unwrap();
    let reply = Some(Reply::new("connection lost"));
    assert_eq!(held, Answer::Unknown { reply });
    assert_eq!(state(store.memory()).await, Some(State::Held));

    let duplicate = once(&engine, &holding(), never).await.unwrap();
    assert_eq!(duplicate, Answer::Unknown { reply: None });
}

fn panics_at_once(_: Execution) -> std::future::Ready<Outcome> {
    panic!("scripted: the work is broken")
}

async fn panics_later(_: Execution) -> Outcome {
    tokio::time::sleep(LONG).await;
    panic!("scripted: the work broke")
}

const LONG: Duration = Duration::from_secs(10);

#[tokio::test(start_paused = true)]
async fn a_panic_is_an_unknown_outcome() {
    let (engine, store) = engine();
    let expected = |fence| Answer::Released { outcome: Outcome::Unknown(Reply::default()), fence };
    let first = once(&engine, &conflict(), panics_at_once).await.unwrap();
    assert_eq!(first, expected(Fence::FIRST));
    let second = once(&engine, &conflict(), panics_later).await.unwrap();
    assert_eq!(second, expected(Fence::FIRST.next()));

    // The engine still works, and the renewals have stopped.
    idle(&engine).await;
    let renewals = store.calls(Verb::Renew);
    assert!(renewals > 0);
    tokio::time::sleep(LONG).await;
    assert_eq!(store.calls(Verb::Renew), renewals);

    let held = once(&engine, &holding(), panics_at_once).await.unwrap();
    let reply = Some(Reply::default());
    assert_eq!(held, Answer::Unknown { reply });
    assert_eq!(state(store.memory()).await, Some(State::Held));
}

/// I8, trap 9.
#[tokio::test(start_paused = true)]
async fn another_request_with_the_same_key_is_refused_in_every_state() {
    let (engine, store) = engine();
    let effect = Effect::gated();
    let other = || engine.attempt(RECORD, fingerprint("another request"));
    let first = spawn_once(&engine, &conflict(), effect.work(completed("charge 1")));
    effect.started().await;
    let in_flight = engine.once(other(), &conflict(), never).await.unwrap();
    assert_eq!(in_flight, Answer::Mismatch);
    effect.finish();
    first.await.unwrap().unwrap();
    let after = engine.once(other(), &conflict(), never).await.unwrap();
    assert_eq!(after, Answer::Mismatch);
    assert_eq!(state(store.memory()).await, Some(State::Settled(settled("charge 1"))));
}

#[tokio::test(start_paused = true)]
async fn the_work_gets_its_fence_and_its_record() {
    let (engine, store) = engine();
    let (sender, received) = tokio::sync::oneshot::channel();
    let work = |execution: Execution| async move {
        sender.send(execution).unwrap();
        completed("charge 1")
    };
    once(&engine, &conflict(), work).await.unwrap();
    let execution = received.await.unwrap();
    let record = store.memory().inspect(RECORD).await.unwrap().unwrap();
    assert_eq!(execution.fence(), Some(record.fence));
    assert_eq!(execution.expires(), Some(record.expires));
    assert_eq!(execution.record_prefix(), RECORD.prefix());
    assert!(!execution.is_lost());
}
