//! The store fails, hangs, or loses its answer.

use std::time::Duration;

use semel_core::{
    Claim, Fence, OnAbandoned, OnStoreDown, OnUnknown, Outcome, Policy, Reply, State,
};
use semel_engine::{Answer, EngineError, Execution, Stored};
use semel_store::{Store as _, StoreError};
use tokio::time::{Instant, sleep};

use crate::support::{
    Effect, Fault, LEASE, Verb, completed, conflict, engine, engine_over, idle, memory, never,
    once, policy, settled, spawn_once, state, until,
};

fn open() -> Policy {
    policy().on_store_down(OnStoreDown::Open).build().unwrap()
}

// --- the claim ---

/// Trap 13: the repeated claim is recognised by its owner, and must not be answered as a duplicate.
#[tokio::test(start_paused = true)]
async fn a_claim_granted_without_acknowledgement_is_recognised() {
    for fault in [Fault::TimedOut, Fault::TimedOutApplied] {
        let (engine, store) = engine();
        let effect = Effect::new();
        store.fail_next(Verb::Claim, [fault, fault]);
        let answer = once(&engine, &conflict(), effect.work(completed("first"))).await;
        let Ok(Answer::Executed { fence, stored, .. }) = answer else { panic!("{answer:?}") };
        assert_eq!((fence, stored), (Fence::FIRST, Stored::Durable));
        assert_eq!((effect.runs(), store.calls(Verb::Claim)), (1, 3));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_granted_without_acknowledgement_is_released() {
    // Without the release, `hold` would answer "unknown" until an operator acts.
    let holding = policy().on_abandoned(OnAbandoned::Hold).build().unwrap();
    let (engine, store) = engine();
    store.fail([Verb::Claim], Fault::TimedOutApplied);
    let refused = once(&engine, &holding, never).await;
    assert!(matches!(refused, Err(EngineError::Store(StoreError::TimedOut { .. }))));
    assert_eq!(store.calls(Verb::Claim), 3, "bounded");
    store.fail_all(Fault::Unavailable);
    sleep(LEASE * 2).await;
    assert_eq!(engine.running(), 1, "the doubt is looked into");
    assert!(matches!(state(store.memory()).await, Some(State::Leased { .. })));

    store.mend();
    idle(&engine).await;
    assert_eq!(state(store.memory()).await, Some(State::Released));
    let effect = Effect::new();
    let retry = once(&engine, &holding, effect.work(completed("first"))).await;
    assert!(matches!(retry, Ok(Answer::Executed { .. })));
}

/// A commit can stall while the store answers every read: a read that finds nothing is no proof.
#[tokio::test(start_paused = true)]
async fn the_lease_of_a_claim_that_arrives_late_is_released() {
    let holding = policy().on_abandoned(OnAbandoned::Hold).build().unwrap();
    let (engine, store) = engine();
    store.fail([Verb::Claim], Fault::TimedOut);
    assert!(once(&engine, &holding, never).await.is_err());
    store.mend();
    sleep(Duration::from_secs(20)).await;
    let late = store.last_attempt().unwrap();
    let granted = store.memory().claim(&late, &holding).await;
    assert!(matches!(granted, Ok(Claim::Execute(_))), "{granted:?}");
    idle(&engine).await;
    assert_eq!(state(store.memory()).await, Some(State::Released));
}

/// An error that surely had no effect does not undo the doubt about the call before it.
#[tokio::test(start_paused = true)]
async fn doubt_outlasts_later_errors() {
    let (engine, store) = engine();
    let faults = [Fault::TimedOutApplied, Fault::Unavailable, Fault::Unavailable];
    store.fail_next(Verb::Claim, faults);
    let refused = once(&engine, &conflict(), never).await;
    assert!(matches!(refused, Err(EngineError::Store(_))));
    idle(&engine).await;
    assert_eq!(state(store.memory()).await, Some(State::Released));
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_never_arrived_leaves_no_record() {
    let (engine, store) = engine();
    store.fail([Verb::Claim], Fault::TimedOut);
    assert!(once(&engine, &conflict(), never).await.is_err());
    store.mend();
    idle(&engine).await;
    assert_eq!(state(store.memory()).await, None);
}

/// I10: past the retention there is no lease left to find.
#[tokio::test(start_paused = true)]
async fn the_search_for_a_lease_ends_with_the_retention() {
    let (engine, store) = engine();
    let short = policy().ttl(Duration::from_mins(2)).build().unwrap();
    store.fail_all(Fault::TimedOut);
    assert!(once(&engine, &short, never).await.is_err());
    sleep(Duration::from_mins(1)).await;
    assert_eq!(engine.running(), 1);
    sleep(Duration::from_mins(2)).await;
    assert_eq!(engine.running(), 0);
}

/// An outage must cost microseconds, and nothing may be executed (fail closed).
#[tokio::test(start_paused = true)]
async fn an_outage_is_reported_at_once() {
    for fault in [Fault::Unavailable, Fault::Corrupt] {
        let (engine, store) = engine();
        store.fail_all(fault);
        let began = Instant::now();
        let refused = once(&engine, &conflict(), never).await;
        assert!(matches!(refused, Err(EngineError::Store(_))));
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert_eq!(store.calls(Verb::Claim), 1);
        assert_eq!(engine.running(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_is_reported_after_the_timeout() {
    let (engine, store) = engine();
    store.fail_all(Fault::Hang);
    let began = Instant::now();
    assert!(once(&engine, &conflict(), never).await.is_err());
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_the_store_does_not_end_the_engine() {
    let (engine, store) = engine();
    store.fail_next(Verb::Claim, [Fault::Panic]);
    let broken = once(&engine, &conflict(), never).await;
    assert!(matches!(broken, Err(EngineError::Interrupted)));
    idle(&engine).await;
    let work = Effect::new().work(completed("first"));
    assert!(once(&engine, &conflict(), work).await.is_ok());
}

// --- fail open ---

/// Trap 15: executed without protection, and the answer is marked.
#[tokio::test(start_paused = true)]
async fn failing_open_executes_and_marks_the_answer() {
    for fault in [Fault::Unavailable, Fault::TimedOut] {
        let (engine, store) = engine();
        store.fail([Verb::Claim], fault);
        let (sender, received) = tokio::sync::oneshot::channel();
        let work = |execution: Execution| async move {
            sender.send(execution).unwrap();
            completed("unprotected")
        };
        let answer = once(&engine, &open(), work).await.unwrap();
        let outcome = completed("unprotected");
        assert_eq!(answer, Answer::Bypassed { outcome });
        let execution = received.await.unwrap();
        assert_eq!((execution.fence(), execution.expires()), (None, None));
        store.mend();
        idle(&engine).await;
        assert_eq!(state(store.memory()).await, None);
    }
}

/// Failing open is for an outage. A damaged store may have the outcome on record.
#[tokio::test(start_paused = true)]
async fn a_damaged_store_is_never_bypassed() {
    let (engine, store) = engine();
    store.fail([Verb::Claim], Fault::Corrupt);
    let refused = once(&engine, &open(), never).await;
    assert!(matches!(refused, Err(EngineError::Store(_))));
}

/// A store that declines is reachable, and has a reason: a record that another transaction has locked is being
/// executed, and a full server may replay a settled record.
#[tokio::test(start_paused = true)]
async fn a_store_that_declines_is_never_bypassed() {
    let (engine, store) = engine();
    store.fail([Verb::Claim], Fault::Declined);
    let refused = once(&engine, &open(), never).await;
    let declined = matches!(refused, Err(EngineError::Store(StoreError::Declined { .. })));
    assert!(declined, "{refused:?}");
}

/// Regression: one client used all descriptors of the gateway, so that the store could not be reached, and every
/// request was executed without protection.
#[tokio::test(start_paused = true)]
async fn a_store_that_was_not_asked_is_never_bypassed() {
    let (engine, store) = engine();
    store.fail([Verb::Claim], Fault::NotAsked);
    let refused = once(&engine, &open(), never).await;
    let not_asked = matches!(refused, Err(EngineError::Store(StoreError::NotAsked { .. })));
    assert!(not_asked, "{refused:?}");
    store.mend();
    let work = Effect::new().work(completed("done"));
    assert!(matches!(once(&engine, &open(), work).await, Ok(Answer::Executed { .. })));
}

/// Trap 6: the work was executed, so its lease must not be released as if nothing had been executed.
#[tokio::test(start_paused = true)]
async fn a_bypassed_execution_under_an_unacknowledged_lease_is_recorded() {
    let (engine, store) = engine();
    store.fail([Verb::Claim], Fault::TimedOutApplied);
    let work = Effect::new().work(completed("unprotected"));
    let answer = once(&engine, &open(), work).await.unwrap();
    assert!(matches!(answer, Answer::Bypassed { .. }));
    store.mend();
    idle(&engine).await;
    let retry = once(&engine, &open(), never).await.unwrap();
    assert!(matches!(retry, Answer::Replayed { .. }));
    assert_eq!(retry.reply(), Some(&Reply::new("unprotected")));
}

/// After an outage of hours as well: the search lasts as long as a settlement would be tried.
#[tokio::test(start_paused = true)]
async fn a_bypassed_execution_is_never_released_later() {
    let (engine, store) = engine();
    store.fail_all(Fault::TimedOutApplied);
    let work = Effect::new().work(completed("unprotected"));
    once(&engine, &open(), work).await.unwrap();
    sleep(Duration::from_hours(3)).await;
    let duplicate = once(&engine, &open(), never).await.unwrap();
    assert!(
        matches!(duplicate, Answer::InFlight { .. }),
        "it joins what was executed: {duplicate:?}"
    );
    store.mend();
    idle(&engine).await;
    assert_eq!(state(store.memory()).await, Some(State::Settled(settled("unprotected"))));
}

#[tokio::test(start_paused = true)]
async fn a_bypassed_panic_is_unknown() {
    let (engine, store) = engine();
    store.fail_all(Fault::Unavailable);
    let answer = once(&engine, &open(), never).await.unwrap();
    let outcome = Outcome::Unknown(Reply::default());
    assert_eq!(answer, Answer::Bypassed { outcome });
}

// --- after the execution ---

/// The exception of I6: the client is answered at once, the lease is kept, and the outcome is recorded later.
#[tokio::test(start_paused = true)]
async fn a_store_lost_after_the_execution_receives_the_outcome_later() {
    for fault in [Fault::Unavailable, Fault::TimedOut, Fault::Corrupt] {
        let (engine, store) = engine();
        store.fail([Verb::Settle, Verb::Renew], fault);
        let began = Instant::now();
        let work = Effect::new().work(completed("first"));
        let first = once(&engine, &conflict(), work).await.unwrap();
        let Answer::Executed { settlement, stored, .. } = &first else { panic!("{first:?}") };
        assert_eq!((settlement, *stored), (&settled("first"), Stored::NotYet));
        assert_eq!(store.calls(Verb::Settle), 3, "tried a few times first");
        assert!(began.elapsed() < Duration::from_secs(1));

        // The claim is not dropped: no other attempt executes meanwhile.
        for _ in 0..10 {
            sleep(LEASE).await;
            assert_eq!(engine.running(), 1);
            let duplicate = once(&engine, &conflict(), never).await.unwrap();
            assert!(matches!(duplicate, Answer::InFlight { .. }));
        }
        store.mend();
        idle(&engine).await;
        let retry = once(&engine, &conflict(), never).await.unwrap();
        assert_eq!(retry.reply(), first.reply());
    }
}

/// The outage lasts longer than the lease; no other process took over, so the outcome counts.
#[tokio::test(start_paused = true)]
async fn an_outage_longer_than_the_lease_loses_nothing() {
    let (engine, store) = engine();
    let effect = Effect::gated();
    let first = spawn_once(&engine, &conflict(), effect.work(completed("first")));
    effect.started().await;
    store.fail_all(Fault::Hang);
    effect.finish();
    let finished = Instant::now();
    let answer = first.await.unwrap().unwrap();
    assert!(finished.elapsed() <= Duration::from_secs(3), "the settle timeout is exceeded");
    assert!(matches!(answer, Answer::Executed { stored: Stored::NotYet, .. }));
    sleep(LEASE * 20).await;
    store.mend();
    // The very first retry, before the settlement has been tried again.
    let retry = once(&engine, &conflict(), never).await.unwrap();
    let joined = matches!(retry, Answer::InFlight { .. });
    assert!(joined || retry.reply() == answer.reply(), "{retry:?}");
    idle(&engine).await;
    let retry = once(&engine, &conflict(), never).await.unwrap();
    assert_eq!(retry.reply(), answer.reply());
}

#[tokio::test(start_paused = true)]
async fn an_unacknowledged_settlement_is_durable() {
    let (engine, store) = engine();
    store.fail_next(Verb::Settle, [Fault::TimedOutApplied]);
    let work = Effect::new().work(completed("first"));
    let answer = once(&engine, &conflict(), work).await.unwrap();
    assert!(matches!(answer, Answer::Executed { stored: Stored::Durable, .. }));
}

/// Its renewals are refused by then, since the record is settled, which is no loss.
#[tokio::test(start_paused = true)]
async fn an_old_unacknowledged_settlement_ends_the_background_work() {
    let (engine, store) = engine();
    store.fail([Verb::Settle], Fault::TimedOutApplied);
    let work = Effect::new().work(completed("first"));
    once(&engine, &conflict(), work).await.unwrap();
    sleep(LEASE * 3).await;
    assert_eq!(engine.running(), 1);
    store.mend();
    idle(&engine).await;
    let retry = once(&engine, &conflict(), never).await.unwrap();
    assert_eq!(retry.reply(), Some(&Reply::new("first")));
}

#[tokio::test(start_paused = true)]
async fn background_work_ends_when_another_node_took_over() {
    let memory = memory();
    let ((first, first_store), (second, _)) = (engine_over(&memory), engine_over(&memory));
    first_store.fail([Verb::Settle, Verb::Renew], Fault::Unavailable);
    let work = Effect::new().work(completed("first"));
    once(&first, &conflict(), work).await.unwrap();
    sleep(LEASE * 2).await;
    let work = Effect::new().work(completed("second"));
    let answer = once(&second, &conflict(), work).await.unwrap();
    assert!(matches!(answer, Answer::Executed { .. }));
    first_store.mend();
    idle(&first).await;
    assert_eq!(state(&memory).await, Some(State::Settled(settled("second"))));
}

#[tokio::test(start_paused = true)]
async fn a_lost_release_is_repeated() {
    let later = || Outcome::FailedForNow(Reply::new("later"));
    let lost = || Outcome::Unknown(Reply::new("lost"));
    let holding = policy().on_unknown(OnUnknown::Hold).build().unwrap();
    for (policy, outcome, left) in [
        (conflict(), later(), State::Released),
        (conflict(), lost(), State::Released),
        (holding, lost(), State::Held),
    ] {
        let (engine, store) = engine();
        store.fail([Verb::Release], Fault::Unavailable);
        let answer = once(&engine, &policy, Effect::new().work(outcome)).await;
        assert!(answer.unwrap().reply().is_some());
        sleep(LEASE * 3).await;
        let duplicate = once(&engine, &policy, never).await.unwrap();
        assert!(matches!(duplicate, Answer::InFlight { .. }));
        store.mend();
        idle(&engine).await;
        assert_eq!(state(store.memory()).await, Some(left));
    }
}

/// I10: if an outage does not end, the settlement is given up at the end of the record's retention.
#[tokio::test(start_paused = true)]
async fn settling_in_the_background_ends_with_the_retention() {
    let (engine, store) = engine();
    let short = policy().ttl(Duration::from_mins(2)).build().unwrap();
    store.fail([Verb::Settle, Verb::Renew], Fault::Unavailable);
    let work = Effect::new().work(completed("first"));
    once(&engine, &short, work).await.unwrap();
    sleep(Duration::from_secs(100)).await;
    assert_eq!(engine.running(), 1);
    until("it gives up", || engine.running() == 0).await;
}
