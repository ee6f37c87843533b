//! A process after an outage: it never repeats work that it has executed or still executes, and leaves no lease behind
//! that no execution holds.

use std::time::Duration;

use semel_core::{
    Claim, OnAbandoned, OnStoreDown, OnUnknown, Outcome, Policy, RecordId, Reply, State,
};
use semel_engine::{Answer, Engine, EngineError, Stored};
use semel_store::Store;
use semel_store::scripted::ScriptedStore;
use tokio::time::{Instant, sleep};

use crate::support::{
    Effect, Fault, LEASE, RECORD, Verb, completed, conflict, engine, engine_over, fingerprint,
    idle, memory, never, once, policy, settled, spawn_once, state, until, wait,
};

const OUTAGE: Duration = Duration::from_mins(1);
const PATIENT: Duration = Duration::from_mins(10);

fn payments() -> Policy {
    policy().on_abandoned(OnAbandoned::Hold).on_unknown(OnUnknown::Hold).build().unwrap()
}

fn for_now() -> Outcome {
    Outcome::FailedForNow(Reply::new("503"))
}

/// Makes an attempt on [`RECORD`] with another request.
async fn once_otherwise(engine: &Engine, policy: &Policy) -> Answer {
    let attempt = engine.attempt(RECORD, fingerprint("another request"));
    engine.once(attempt, policy, never).await.unwrap()
}

// --- a process joins its own work ---

/// The outcome was answered but not recorded yet; the lease ran out in the outage.
#[tokio::test(start_paused = true)]
async fn work_whose_settlement_is_pending_is_not_executed_again() {
    for policy in [conflict(), payments()] {
        let (engine, store) = engine();
        let effect = Effect::gated();
        let first = spawn_once(&engine, &policy, effect.work(completed("first")));
        effect.started().await;
        store.fail_all(Fault::Unavailable);
        effect.finish();
        let answer = first.await.unwrap().unwrap();
        assert!(matches!(answer, Answer::Executed { stored: Stored::NotYet, .. }), "{answer:?}");
        sleep(OUTAGE).await;
        store.mend();
        let retry = once(&engine, &policy, never).await.unwrap();
        assert!(matches!(retry, Answer::InFlight { .. }), "{retry:?}");
        idle(&engine).await;
        let retry = once(&engine, &policy, never).await.unwrap();
        assert_eq!(retry.reply(), answer.reply());
    }
}

#[tokio::test(start_paused = true)]
async fn a_running_execution_is_not_joined_by_a_second() {
    let (engine, store) = engine();
    let effect = Effect::gated();
    let first = spawn_once(&engine, &conflict(), effect.work(completed("first")));
    effect.started().await;
    store.fail_all(Fault::Unavailable);
    let retry = once(&engine, &conflict(), never).await.unwrap();
    assert!(matches!(retry, Answer::InFlight { .. }), "known without a store: {retry:?}");
    sleep(OUTAGE).await;
    store.mend();
    let retry = once(&engine, &conflict(), never).await.unwrap();
    assert!(matches!(retry, Answer::InFlight { .. }), "{retry:?}");
    effect.finish();
    let answer = first.await.unwrap().unwrap();
    assert!(matches!(answer, Answer::Executed { stored: Stored::Durable, .. }), "{answer:?}");
    assert_eq!(state(store.memory()).await, Some(State::Settled(settled("first"))));
}

/// The same with a policy that waits: the retry gets the outcome once it is settled.
#[tokio::test(start_paused = true)]
async fn a_waiting_retry_gets_the_outcome_of_its_own_process() {
    let (engine, store) = engine();
    let effect = Effect::gated();
    let first = spawn_once(&engine, &conflict(), effect.work(completed("first")));
    effect.started().await;
    store.fail_all(Fault::Unavailable);
    effect.finish();
    first.await.unwrap().unwrap();
    let waiters = [(), ()].map(|()| spawn_once(&engine, &wait(PATIENT), never));
    until("they wait", || engine.waiting() == 2).await;
    sleep(OUTAGE).await;
    store.mend();
    for waiter in waiters {
        let answer = waiter.await.unwrap().unwrap();
        assert!(matches!(answer, Answer::Replayed { .. }), "{answer:?}");
        assert_eq!(answer.reply(), Some(&Reply::new("first")));
    }
}

/// I8 without the store.
#[tokio::test(start_paused = true)]
async fn another_request_is_a_mismatch_also_while_the_store_is_away() {
    let (engine, store) = engine();
    let effect = Effect::gated();
    let first = spawn_once(&engine, &conflict(), effect.work(completed("first")));
    effect.started().await;
    store.fail_all(Fault::Unavailable);
    assert_eq!(once_otherwise(&engine, &conflict()).await, Answer::Mismatch);
    sleep(OUTAGE).await;
    store.mend();
    assert_eq!(once_otherwise(&engine, &conflict()).await, Answer::Mismatch);
    effect.finish();
    first.await.unwrap().unwrap();
}

/// The outage ends at any moment of the backoff, and the retry comes at any moment after that.
#[tokio::test(start_paused = true)]
async fn no_retry_wins_against_the_settlement_of_its_own_process() {
    for phase in 0..400_u64 {
        let (engine, store) = engine();
        store.fail([Verb::Settle, Verb::Renew], Fault::Unavailable);
        once(&engine, &conflict(), Effect::new().work(completed("first"))).await.unwrap();
        store.fail_all(Fault::Unavailable);
        sleep(OUTAGE + Duration::from_millis(phase * 137 % 10_000)).await;
        store.mend();
        sleep(Duration::from_millis(phase * 389 % 1_000)).await;
        let retry = once(&engine, &conflict(), never).await.unwrap();
        let joined = matches!(retry, Answer::InFlight { .. });
        assert!(joined || retry.reply() == Some(&Reply::new("first")), "{phase}: {retry:?}");
        idle(&engine).await;
        assert_eq!(state(store.memory()).await, Some(State::Settled(settled("first"))));
    }
}

/// Another process may take over once the lease has run out. Its outcome is replayed even in the process where the
/// execution that lost its lease still runs.
#[tokio::test(start_paused = true)]
async fn the_outcome_of_another_process_is_replayed_while_a_superseded_execution_runs() {
    let memory = memory();
    let ((here, store), (there, _)) = (engine_over(&memory), engine_over(&memory));
    let effect = Effect::gated();
    let first = spawn_once(&here, &conflict(), effect.work(completed("first")));
    effect.started().await;
    store.fail_all(Fault::Unavailable);
    sleep(LEASE * 2).await;
    once(&there, &conflict(), Effect::new().work(completed("second"))).await.unwrap();
    store.mend();
    sleep(LEASE).await;
    let retry = once(&here, &conflict(), never).await.unwrap();
    assert_eq!(retry.reply(), Some(&Reply::new("second")), "{retry:?}");
    effect.finish();
    assert_eq!(first.await.unwrap().unwrap().reply(), Some(&Reply::new("second")));
}

/// Under `hold` another process does not take over: its answer is *unknown* until the holder has settled.
#[tokio::test(start_paused = true)]
async fn another_process_holds_the_record_until_its_holder_has_settled() {
    let memory = memory();
    let ((here, store), (there, _)) = (engine_over(&memory), engine_over(&memory));
    store.fail([Verb::Settle, Verb::Renew], Fault::Unavailable);
    once(&here, &payments(), Effect::new().work(completed("first"))).await.unwrap();
    sleep(LEASE * 2).await;
    let elsewhere = once(&there, &payments(), never).await.unwrap();
    assert!(matches!(elsewhere, Answer::Unknown { .. }), "{elsewhere:?}");
    store.mend();
    idle(&here).await;
    let elsewhere = once(&there, &payments(), never).await.unwrap();
    assert_eq!(elsewhere.reply(), Some(&Reply::new("first")), "{elsewhere:?}");
}

/// The same before the execution has detected the loss of its lease: an outcome that one node has answered must not
/// be reported as in progress by another node (I2).
#[tokio::test(start_paused = true)]
async fn the_outcome_of_another_process_is_replayed_before_the_loss_is_known() {
    let memory = memory();
    let ((here, store), (there, _)) = (engine_over(&memory), engine_over(&memory));
    let effect = Effect::gated();
    let first = spawn_once(&here, &conflict(), effect.work(completed("first")));
    effect.started().await;
    store.fail([Verb::Renew], Fault::Unavailable);
    sleep(LEASE * 2).await;
    once(&there, &conflict(), Effect::new().work(completed("second"))).await.unwrap();
    let retry = once(&here, &conflict(), never).await.unwrap();
    assert_eq!(retry.reply(), Some(&Reply::new("second")), "{retry:?}");
    effect.finish();
    store.mend();
    first.await.unwrap().unwrap();
}

/// A settlement counts from the moment the store has it, which is before its own process gets the acknowledgement.
#[tokio::test(start_paused = true)]
async fn an_outcome_is_replayed_before_its_settlement_is_acknowledged() {
    let (engine, store) = engine();
    store.fail([Verb::Settle], Fault::TimedOutApplied);
    let answer = once(&engine, &conflict(), Effect::new().work(completed("first"))).await.unwrap();
    assert!(matches!(answer, Answer::Executed { stored: Stored::NotYet, .. }), "{answer:?}");
    assert_eq!(state(store.memory()).await, Some(State::Settled(settled("first"))));
    let retry = once(&engine, &conflict(), never).await.unwrap();
    assert!(matches!(retry, Answer::Replayed { .. }), "{retry:?}");
    assert_eq!(retry.reply(), answer.reply());
    store.mend();
    idle(&engine).await;
}

/// A grant that arrives after the lease has run out does not allow an execution: the claim is repeated.
#[tokio::test(start_paused = true)]
async fn a_claim_whose_grant_arrives_too_late_is_repeated() {
    let (engine, store) = engine();
    let short = policy().lease(Duration::from_secs(1)).build().unwrap();
    store.fail_next(Verb::Claim, [Fault::Hang]);
    let effect = Effect::new();
    let first = spawn_once(&engine, &short, effect.work(completed("first")));
    sleep(Duration::from_secs(2)).await;
    store.mend();
    let answer = first.await.unwrap().unwrap();
    assert!(matches!(answer, Answer::Executed { stored: Stored::Durable, .. }), "{answer:?}");
    assert_eq!((store.calls(Verb::Claim), effect.runs()), (2, 1));
}

// --- holders first ---

/// The first answer of the store wakes every holder from its backoff.
#[tokio::test(start_paused = true)]
async fn holders_write_as_soon_as_the_store_is_back() {
    let (engine, store) = engine();
    store.fail([Verb::Settle, Verb::Renew], Fault::Unavailable);
    once(&engine, &conflict(), Effect::new().work(completed("first"))).await.unwrap();
    sleep(OUTAGE).await;
    store.mend();
    let back = Instant::now();
    let other = engine.attempt(RecordId::from_bytes([8; 32]), fingerprint("request"));
    engine.once(other, &conflict(), |_| async { completed("other") }).await.unwrap();
    idle(&engine).await;
    assert!(back.elapsed() < Duration::from_millis(50), "{:?}", back.elapsed());
}

/// Without any other traffic a holder detects the end of the outage within about a second.
#[tokio::test(start_paused = true)]
async fn holders_try_again_about_once_a_second() {
    let (engine, store) = engine();
    store.fail([Verb::Settle, Verb::Renew], Fault::Unavailable);
    once(&engine, &conflict(), Effect::new().work(completed("first"))).await.unwrap();
    sleep(Duration::from_hours(1)).await;
    store.mend();
    let back = Instant::now();
    idle(&engine).await;
    assert!(back.elapsed() <= Duration::from_millis(1_010), "{:?}", back.elapsed());
}

// --- leases that no execution holds ---

/// The first claim is stuck in the network, the second is granted, the work did not happen, the lease is
/// released; another attempt comes and goes; then the first claim arrives.
#[tokio::test(start_paused = true)]
async fn a_lease_granted_after_the_release_is_found() {
    let (engine, store) = engine();
    store.fail_next(Verb::Claim, [Fault::TimedOut]);
    let answer = once(&engine, &payments(), Effect::new().work(for_now())).await.unwrap();
    assert!(matches!(answer, Answer::Released { .. }), "{answer:?}");
    let late = store.last_attempt().unwrap();
    once(&engine, &payments(), Effect::new().work(for_now())).await.unwrap();
    sleep(Duration::from_secs(20)).await;
    let granted = store.memory().claim(&late, &payments()).await.unwrap();
    assert!(matches!(granted, Claim::Execute(_)), "another had it since: {granted:?}");
    idle(&engine).await;
    assert_eq!(state(store.memory()).await, Some(State::Released));
    let retry = once(&engine, &payments(), Effect::new().work(completed("paid"))).await.unwrap();
    assert!(matches!(retry, Answer::Executed { .. }), "{retry:?}");
}

/// Three claims of one attempt are under way when it gives up. Each may be granted.
#[tokio::test(start_paused = true)]
async fn every_lease_of_late_claims_is_found() {
    let (engine, store) = engine();
    store.fail_next(Verb::Claim, [Fault::TimedOut; 3]);
    assert!(once(&engine, &payments(), never).await.is_err());
    let late = store.last_attempt().unwrap();
    for number in 0..2 {
        if number > 0 {
            // A third one in between, or the late claim would be that of an owner that has released.
            once(&engine, &payments(), |_| async { for_now() }).await.unwrap();
        }
        let granted = store.memory().claim(&late, &payments()).await.unwrap();
        assert!(matches!(granted, Claim::Execute(_)), "{granted:?}");
        let until = Instant::now() + Duration::from_secs(10);
        while state(store.memory()).await != Some(State::Released) {
            assert!(Instant::now() < until, "never released: {granted:?}");
            sleep(Duration::from_millis(10)).await;
        }
    }
    let retry = once(&engine, &payments(), Effect::new().work(completed("paid"))).await.unwrap();
    assert!(matches!(retry, Answer::Executed { .. }), "{retry:?}");
    idle(&engine).await;
}

/// The search for a lease whose grant was not acknowledged lasts as long as a settlement would be tried.
#[tokio::test(start_paused = true)]
async fn a_lease_granted_without_acknowledgement_before_a_long_outage_is_released() {
    let (engine, store) = engine();
    store.fail_next(Verb::Claim, [Fault::TimedOutApplied]);
    store.fail_all(Fault::Unavailable);
    assert!(once(&engine, &payments(), never).await.is_err());
    sleep(Duration::from_hours(6)).await;
    store.mend();
    idle(&engine).await;
    assert_eq!(state(store.memory()).await, Some(State::Released));
    let retry = once(&engine, &payments(), Effect::new().work(completed("paid"))).await.unwrap();
    assert!(matches!(retry, Answer::Executed { .. }), "{retry:?}");
}

/// The simulator found this. A settlement is given up with the retention, and renewals have kept the record: the
/// attempt's doubt about its first claim must not release the lease of work that it has executed.
#[tokio::test(start_paused = true)]
async fn work_whose_settlement_was_given_up_is_not_released() {
    let (engine, store) = engine();
    let short = policy().ttl(Duration::from_mins(1)).build().unwrap();
    store.fail_next(Verb::Claim, [Fault::TimedOut]);
    store.fail([Verb::Settle], Fault::Unavailable);
    once(&engine, &short, Effect::new().work(completed("first"))).await.unwrap();
    sleep(Duration::from_secs(50)).await;
    assert_eq!(engine.running(), 1);
    until("it gives up", || engine.running() == 0).await;
    let left = state(store.memory()).await;
    assert!(matches!(left, Some(State::Leased { .. })), "{left:?}");
}

/// While another node executes and settles. A route that fails open is no exception.
async fn refuses_a_retry_of_what_is_settled_elsewhere(
    here: &Engine,
    store: &ScriptedStore,
    there: &Engine,
) {
    once(there, &conflict(), Effect::new().work(completed("second"))).await.unwrap();
    let open = policy().on_store_down(OnStoreDown::Open).build().unwrap();
    for policy in [conflict(), open] {
        let retry = once(here, &policy, never).await;
        assert!(matches!(retry, Err(EngineError::Store(_))), "{retry:?}");
    }
    store.mend();
    idle(here).await;
    let retry = once(here, &conflict(), never).await.unwrap();
    assert_eq!(retry.reply(), Some(&Reply::new("second")), "{retry:?}");
}

/// A fault run found this. A lease without an execution is being released when an outage begins: a record that another
/// node has replayed by then must not be reported as in progress (I2).
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_being_released_is_no_execution_in_progress() {
    let memory = memory();
    let ((here, store), (there, _)) = (engine_over(&memory), engine_over(&memory));
    store.fail_next(Verb::Claim, [Fault::TimedOutApplied]);
    store.fail([Verb::Claim, Verb::Release, Verb::Renew], Fault::Unavailable);
    assert!(once(&here, &conflict(), never).await.is_err());
    sleep(Duration::from_secs(1)).await;
    let retry = once(&here, &conflict(), never).await.unwrap();
    assert!(matches!(retry, Answer::InFlight { .. }), "the store says so: {retry:?}");
    store.fail_all(Fault::Unavailable);
    sleep(LEASE * 2).await;
    refuses_a_retry_of_what_is_settled_elsewhere(&here, &store, &there).await;
}

/// The same for an execution that failed for now, whose lease is being released.
#[tokio::test(start_paused = true)]
async fn a_transient_failure_is_no_execution_in_progress() {
    let memory = memory();
    let ((here, store), (there, _)) = (engine_over(&memory), engine_over(&memory));
    store.fail([Verb::Release, Verb::Renew], Fault::Unavailable);
    once(&here, &conflict(), Effect::new().work(for_now())).await.unwrap();
    store.fail_all(Fault::Unavailable);
    sleep(LEASE * 2).await;
    refuses_a_retry_of_what_is_settled_elsewhere(&here, &store, &there).await;
}

/// A claim that was delayed for the time of an outage may arrive after the outage, and after the first read.
#[tokio::test(start_paused = true)]
async fn doubt_outlasts_an_outage_by_some_seconds() {
    let (engine, store) = engine();
    store.fail_next(Verb::Claim, [Fault::TimedOut; 3]);
    store.fail([Verb::Inspect], Fault::Unavailable);
    assert!(once(&engine, &payments(), never).await.is_err());
    let late = store.last_attempt().unwrap();
    sleep(OUTAGE).await;
    store.mend();
    sleep(Duration::from_secs(2)).await;
    let granted = store.memory().claim(&late, &payments()).await.unwrap();
    assert!(matches!(granted, Claim::Execute(_)), "{granted:?}");
    idle(&engine).await;
    assert_eq!(state(store.memory()).await, Some(State::Released));
}
