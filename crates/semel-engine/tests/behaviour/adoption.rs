//! Two attempts of one process on one record, both granted a lease, since an outage delayed the claim of one. The
//! execution continues under the newer lease, and nothing is executed twice or left behind.

use std::time::Duration;

use semel_core::{Attempt, Claim, Fence, OnStoreDown, Outcome, Owner, Release, Reply, State};
use semel_engine::{Answer, Engine, Stored};
use semel_store::Store;
use semel_store::scripted::ScriptedStore;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::support::{
    Answered, Effect, Fault, LEASE, RECORD, Verb, completed, conflict, engine, fingerprint, idle,
    never, once, policy, settle_down, settled, spawn_once, state, until, wait,
};

const PATIENT: Duration = Duration::from_mins(10);

fn for_now() -> Outcome {
    Outcome::FailedForNow(Reply::new("503"))
}

/// A duplicate that waits for work of another process, and one of whose claims is delayed. The lease of the work is
/// released then.
async fn duplicate_in_doubt(
    engine: &Engine,
    store: &ScriptedStore,
) -> (JoinHandle<Answered>, Attempt) {
    let elsewhere = Attempt::new(RECORD, fingerprint("request"), Owner::from_u128(1));
    let held = store.memory().claim(&elsewhere, &conflict()).await.unwrap();
    let Claim::Execute(held) = held else { panic!("{held:?}") };
    let waiter = spawn_once(engine, &wait(PATIENT), never);
    until("it waits", || engine.waiting() == 1).await;
    store.fail_next(Verb::Claim, [Fault::TimedOut]);
    let polls = store.calls(Verb::Claim);
    until("a poll is lost", || store.calls(Verb::Claim) > polls).await;
    let late = store.last_attempt().unwrap();
    store.fail([Verb::Claim], Fault::Unavailable);
    let _ = store.memory().release(&held, Release::Retry).await.unwrap();
    store.mend();
    (waiter, late)
}

/// A claim that was sent before this process had an execution is granted past it, after an outage. The
/// execution adopts that lease, and its outcome is recorded under it.
#[tokio::test(start_paused = true)]
async fn an_execution_adopts_a_lease_granted_past_it() {
    for outcome_first in [true, false] {
        let (engine, store) = engine();
        store.fail_next(Verb::Claim, [Fault::TimedOut; 3]);
        assert!(once(&engine, &conflict(), never).await.is_err());
        let late = store.last_attempt().unwrap();

        let effect = Effect::gated();
        let first = spawn_once(&engine, &conflict(), effect.work(completed("first")));
        effect.started().await;
        store.fail_all(Fault::Unavailable);
        sleep(LEASE * 2).await;
        if outcome_first {
            effect.finish();
        }
        let granted = store.memory().claim(&late, &conflict()).await.unwrap();
        assert!(matches!(granted, Claim::Execute(lease) if lease.fence() > Fence::FIRST));
        store.mend();
        sleep(LEASE * 2).await;
        effect.finish();
        let answer = first.await.unwrap().unwrap();
        assert!(matches!(answer, Answer::Executed { fence: Fence::FIRST, .. }), "{answer:?}");
        idle(&engine).await;
        assert_eq!(state(store.memory()).await, Some(State::Settled(settled("first"))));
    }
}

/// The simulator found this. A claim is granted while another attempt of the process executes without protection,
/// since its own claim had failed.
#[tokio::test(start_paused = true)]
async fn an_unprotected_execution_adopts_a_lease_granted_past_it() {
    let open = policy().on_store_down(OnStoreDown::Open).build().unwrap();
    let recorded = State::Settled(settled("first"));
    for (outcome, left) in [(completed("first"), recorded), (for_now(), State::Released)] {
        let (engine, store) = engine();
        store.yield_in([Verb::Claim], 100);
        let late = spawn_once(&engine, &open, never);
        settle_down().await;
        store.fail([Verb::Claim], Fault::Unavailable);
        store.yield_in([Verb::Claim], 0);
        let effect = Effect::gated();
        let first = spawn_once(&engine, &open, effect.work(outcome));
        effect.started().await;
        let joined = late.await.unwrap().unwrap();
        assert!(matches!(joined, Answer::InFlight { .. }), "{joined:?}");
        store.mend();
        effect.finish();
        let answer = first.await.unwrap().unwrap();
        assert!(matches!(answer, Answer::Bypassed { .. }), "{answer:?}");
        idle(&engine).await;
        assert_eq!(state(store.memory()).await, Some(left));
    }
}

/// The claim of another attempt of this process is granted past an execution, and the next outage begins before the
/// execution has found that lease: the process waits for its own lease, however long that takes.
#[tokio::test(start_paused = true)]
async fn an_execution_adopts_a_newer_lease_of_its_process_after_a_second_outage() {
    for away in [Duration::from_secs(10), Duration::from_mins(5)] {
        let (engine, store) = engine();
        store.fail_next(Verb::Claim, [Fault::TimedOut; 3]);
        assert!(once(&engine, &conflict(), never).await.is_err());
        let late = store.last_attempt().unwrap();

        let effect = Effect::gated();
        let first = spawn_once(&engine, &conflict(), effect.work(completed("first")));
        effect.started().await;
        store.fail_all(Fault::Unavailable);
        sleep(LEASE * 2).await;
        let granted = store.memory().claim(&late, &conflict()).await.unwrap();
        assert!(matches!(granted, Claim::Execute(_)), "{granted:?}");
        store.mend();
        store.fail([Verb::Inspect, Verb::Claim, Verb::Renew], Fault::Unavailable);
        effect.finish();
        let answer = first.await.unwrap().unwrap();
        assert!(matches!(answer, Answer::Executed { stored: Stored::NotYet, .. }), "{answer:?}");
        sleep(away).await;
        store.mend();
        idle(&engine).await;
        assert_eq!(state(store.memory()).await, Some(State::Settled(settled("first"))));
    }
}

/// A duplicate waits, and a claim of it is granted without acknowledgement. The execution does not wait for the
/// next poll of the duplicate.
#[tokio::test(start_paused = true)]
async fn an_unacknowledged_lease_of_a_waiting_duplicate_is_adopted_at_once() {
    let (engine, store) = engine();
    let (waiter, late) = duplicate_in_doubt(&engine, &store).await;
    let effect = Effect::gated();
    let first = spawn_once(&engine, &conflict(), effect.work(completed("first")));
    effect.started().await;
    store.fail_all(Fault::Unavailable);
    sleep(LEASE * 2).await;
    let granted = store.memory().claim(&late, &conflict()).await.unwrap();
    assert!(matches!(granted, Claim::Execute(_)), "{granted:?}");
    store.mend();
    effect.finish();
    let (back, answer) = (Instant::now(), first.await.unwrap().unwrap());
    assert!(matches!(answer, Answer::Executed { stored: Stored::Durable, .. }), "{answer:?}");
    assert!(back.elapsed() < LEASE, "{:?}", back.elapsed());
    let replay = waiter.await.unwrap().unwrap();
    assert_eq!(replay.reply(), Some(&Reply::new("first")), "{replay:?}");
}

/// The attempt whose lease was adopted sends no further reads.
#[tokio::test(start_paused = true)]
async fn the_first_owner_of_an_adopted_lease_does_not_probe_for_it() {
    let (engine, store) = engine();
    store.fail_next(Verb::Claim, [Fault::TimedOut; 3]);
    assert!(once(&engine, &conflict(), never).await.is_err());
    let late = store.last_attempt().unwrap();
    let effect = Effect::gated();
    let first = spawn_once(&engine, &conflict(), effect.work(completed("first")));
    effect.started().await;
    store.fail_all(Fault::Unavailable);
    sleep(LEASE * 2).await;
    let _ = store.memory().claim(&late, &conflict()).await.unwrap();
    store.mend();
    sleep(LEASE * 2).await;
    let looks = store.calls(Verb::Inspect);
    sleep(Duration::from_mins(10)).await;
    assert!(store.calls(Verb::Inspect) <= looks + 1, "{}", store.calls(Verb::Inspect) - looks);
    assert_eq!(engine.running(), 1, "only the execution");
    effect.finish();
    first.await.unwrap().unwrap();
}

/// A duplicate waits, its lease is adopted by the execution, and then released. The store grants nothing more
/// to its owner, so it does not go on waiting.
#[tokio::test(start_paused = true)]
async fn a_duplicate_whose_lease_was_adopted_stops_waiting_after_a_release() {
    let (engine, store) = engine();
    let (waiter, late) = duplicate_in_doubt(&engine, &store).await;
    let effect = Effect::gated();
    let first = spawn_once(&engine, &conflict(), effect.work(for_now()));
    effect.started().await;
    store.fail_all(Fault::Unavailable);
    sleep(LEASE * 2).await;
    let _ = store.memory().claim(&late, &conflict()).await.unwrap();
    store.mend();
    effect.finish();
    let answer = first.await.unwrap().unwrap();
    assert!(matches!(answer, Answer::Released { .. }), "{answer:?}");
    let back = Instant::now();
    let answer = waiter.await.unwrap().unwrap();
    assert!(matches!(answer, Answer::InFlight { .. }), "{answer:?}");
    assert!(back.elapsed() < Duration::from_secs(10), "{:?}", back.elapsed());
    let retry = once(&engine, &conflict(), Effect::new().work(completed("second"))).await.unwrap();
    assert!(matches!(retry, Answer::Executed { .. }), "{retry:?}");
}

/// An attempt may be granted a lease by a late copy of a claim of its own, after another process had the record.
#[tokio::test(start_paused = true)]
async fn a_newer_lease_of_the_same_attempt_is_adopted() {
    let (engine, store) = engine();
    store.fail_next(Verb::Claim, [Fault::TimedOut]);
    let effect = Effect::gated();
    let first = spawn_once(&engine, &conflict(), effect.work(completed("first")));
    effect.started().await;
    let late = store.last_attempt().unwrap();
    store.fail_all(Fault::Unavailable);
    sleep(LEASE * 2).await;
    let elsewhere = Attempt::new(RECORD, fingerprint("request"), Owner::from_u128(1));
    let held = store.memory().claim(&elsewhere, &conflict()).await.unwrap();
    let Claim::Execute(held) = held else { panic!("{held:?}") };
    let _ = store.memory().release(&held, Release::Retry).await.unwrap();
    let granted = store.memory().claim(&late, &conflict()).await.unwrap();
    assert!(matches!(granted, Claim::Execute(_)), "{granted:?}");
    store.mend();
    effect.finish();
    let answer = first.await.unwrap().unwrap();
    assert!(matches!(answer, Answer::Executed { stored: Stored::Durable, .. }), "{answer:?}");
    idle(&engine).await;
    assert_eq!(state(store.memory()).await, Some(State::Settled(settled("first"))));
}

/// The simulator found this. Another request under the same key is in doubt while an execution runs without
/// protection: neither waits for the other.
#[tokio::test(start_paused = true)]
async fn an_unprotected_execution_does_not_wait_for_another_request() {
    let open = policy().on_store_down(OnStoreDown::Open).build().unwrap();
    let (engine, store) = engine();
    store.fail_next(Verb::Claim, [Fault::TimedOutApplied]);
    store.fail_all(Fault::Unavailable);
    let attempt = engine.attempt(RECORD, fingerprint("another request"));
    assert!(engine.once(attempt, &conflict(), never).await.is_err());
    once(&engine, &open, Effect::new().work(completed("first"))).await.unwrap();
    store.mend();
    let back = Instant::now();
    idle(&engine).await;
    assert!(back.elapsed() < Duration::from_secs(45), "{:?}", back.elapsed());
    assert_eq!(state(store.memory()).await, Some(State::Released));
}
