//! I3, I4 and trap 17: the lease is kept alive, its loss is detected, and a holder that lost it
//! answers with the recorded outcome, never its own.

use std::time::Duration;

use semel_core::{Fence, Outcome, Policy, Reply, State};
use semel_engine::{Answer, Execution, Stored};
use tokio::time::{Instant, sleep};

use crate::support::{
    Effect, Fault, LEASE, Verb, completed, conflict, engine, engine_over, idle, memory, never,
    once, policy, settle_down, settled, spawn_once, state, until, wait,
};

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_at_a_third_for_as_long_as_the_work_runs() {
    let (engine, store) = engine();
    let effect = Effect::gated();
    let first = spawn_once(&engine, &conflict(), effect.work(completed("first")));
    effect.started().await;
    for leases in 1..=5 {
        sleep(LEASE).await;
        let expected = 3 * leases;
        assert!((expected - 1..=expected).contains(&store.calls(Verb::Renew)));
        let duplicate = once(&engine, &conflict(), never).await.unwrap();
        assert!(matches!(duplicate, Answer::InFlight { .. }));
    }
    effect.finish();
    let Answer::Executed { fence, stored, .. } = first.await.unwrap().unwrap() else {
        panic!("not executed")
    };
    assert_eq!((fence, stored), (Fence::FIRST, Stored::Durable));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_failed_is_tried_again_before_the_lease_runs_out() {
    let (engine, store) = engine();
    let effect = Effect::gated();
    store.fail_next(Verb::Renew, [Fault::Unavailable, Fault::TimedOut]);
    let first = spawn_once(&engine, &conflict(), effect.work(completed("first")));
    effect.started().await;
    sleep(LEASE / 3 + LEASE / 6).await;
    assert_eq!(store.calls(Verb::Renew), 3, "two failed, one granted");
    sleep(LEASE / 2 + LEASE / 4).await;
    let duplicate = once(&engine, &conflict(), never).await.unwrap();
    assert!(matches!(duplicate, Answer::InFlight { .. }));
    effect.finish();
    first.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_hanging_renewal_does_not_hold_up_the_answer() {
    let (engine, store) = engine();
    let effect = Effect::gated();
    store.fail([Verb::Renew], Fault::Hang);
    let first = spawn_once(&engine, &conflict(), effect.work(completed("first")));
    until("a renewal hangs", || store.calls(Verb::Renew) == 1).await;
    effect.finish();
    let finished = Instant::now();
    let answer = first.await.unwrap().unwrap();
    assert_eq!(finished.elapsed(), Duration::ZERO);
    assert_eq!(answer.reply(), Some(&Reply::new("first")));
}

/// The first node is stopped (as by SIGSTOP: none of its calls come back) while its work goes on.
/// The second executes again after the lease, and the first answers with the second's outcome.
#[tokio::test(start_paused = true)]
async fn a_superseded_holder_answers_with_its_successors_outcome() {
    let memory = memory();
    let ((first, first_store), (second, _)) = (engine_over(&memory), engine_over(&memory));
    let slow = Effect::gated();
    let late = spawn_once(&first, &conflict(), slow.work(completed("first")));
    slow.started().await;
    first_store.fail_all(Fault::Hang);
    sleep(LEASE + Duration::from_millis(1)).await;

    let work = Effect::new().work(completed("second"));
    let taken_over = once(&second, &conflict(), work).await.unwrap();
    let Answer::Executed { fence, settlement, expires, .. } = taken_over else {
        panic!("{taken_over:?}")
    };
    assert_eq!(fence, Fence::FIRST.next());

    first_store.mend();
    slow.finish();
    let recorded = Answer::Replayed { settlement, expires };
    assert_eq!(late.await.unwrap().unwrap(), recorded);
    assert_eq!(once(&first, &conflict(), never).await.unwrap(), recorded);
    assert_eq!((first.running(), second.running()), (0, 0));
}

/// On time, not when the next renewal fails or hangs: another process may take the lease from that moment on.
#[tokio::test(start_paused = true)]
async fn work_is_notified_on_time_that_its_lease_ran_out() {
    for fault in [Fault::Unavailable, Fault::Hang] {
        let (engine, store) = engine();
        store.fail([Verb::Renew], fault);
        let began = Instant::now();
        let work = |execution: Execution| async move {
            execution.lost().await;
            completed("first")
        };
        once(&engine, &conflict(), work).await.unwrap();
        let late = began.elapsed().checked_sub(LEASE);
        assert!(late.is_some_and(|late| late < Duration::from_millis(5)), "{fault:?}: {late:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_lost_its_lease_is_notified_and_goes_on() {
    let memory = memory();
    let ((first, first_store), (second, _)) = (engine_over(&memory), engine_over(&memory));
    let (slow, quick) = (Effect::gated(), Effect::gated());
    let (sender, received) = tokio::sync::oneshot::channel();
    let work = slow.work(completed("first"));
    let late = spawn_once(&first, &conflict(), move |execution: Execution| {
        sender.send(execution.clone()).unwrap();
        work(execution)
    });
    let execution = received.await.unwrap();
    slow.started().await;
    // The process was suspended: it neither measured its lease nor saw it taken.
    first_store.fail([Verb::Renew], Fault::Hang);
    assert!(!execution.is_lost());
    sleep(LEASE + Duration::from_millis(1)).await;
    assert!(execution.is_lost(), "the lease ran out unrenewed");
    let successor = spawn_once(&second, &conflict(), quick.work(completed("second")));
    quick.started().await;

    // Renewals are refused from now on, and stop.
    first_store.mend();
    execution.lost().await;
    settle_down().await;
    let renewals = first_store.calls(Verb::Renew);
    sleep(LEASE).await;
    assert!(first_store.calls(Verb::Renew) <= renewals + 1);
    assert!(!late.is_finished(), "the work goes on");
    slow.finish();
    assert!(matches!(late.await.unwrap().unwrap(), Answer::InFlight { .. }));
    quick.finish();
    successor.await.unwrap().unwrap();
    assert_eq!(state(&memory).await, Some(State::Settled(settled("second"))));
}

/// A renewal that is refused is a loss at once, even if time is left by the node's own clock.
#[tokio::test(start_paused = true)]
async fn a_refused_renewal_is_a_loss() {
    let (engine, store) = engine();
    let (sender, received) = tokio::sync::oneshot::channel();
    let effect = Effect::gated();
    let work = effect.work(completed("first"));
    let first = spawn_once(&engine, &conflict(), move |execution: Execution| {
        sender.send(execution.clone()).unwrap();
        work(execution)
    });
    let execution = received.await.unwrap();
    // An operator releases the lease: another attempt may execute.
    take_away(store.memory()).await;
    let began = Instant::now();
    execution.lost().await;
    assert!(began.elapsed() <= LEASE / 3 + Duration::from_millis(1));
    effect.finish();
    let answer = first.await.unwrap().unwrap();
    assert!(matches!(answer, Answer::InFlight { .. }), "never its own outcome: {answer:?}");
    assert_eq!(state(store.memory()).await, Some(State::Released));
}

/// Releases [`RECORD`](crate::support::RECORD) with a copy of its lease.
async fn take_away(memory: &semel_store::MemoryStore) {
    use semel_store::Store as _;
    let id = crate::support::RECORD;
    let record = memory.inspect(id).await.unwrap().unwrap();
    let lease = semel_core::Lease::new(
        id,
        record.fingerprint,
        record.fence,
        record.owner,
        record.expires,
        record.expires,
    );
    let released = memory.release(&lease, semel_core::Release::Retry).await;
    assert_eq!(released.unwrap(), semel_store::Released::Done);
}

/// Runs a holder that is superseded by a successor still at work, under `policy`. Returns the
/// holder's answer; the successor ends with `outcome` a second after the holder does.
async fn superseded(policy: &Policy, outcome: Outcome) -> Answer {
    let memory = memory();
    let ((first, first_store), (second, _)) = (engine_over(&memory), engine_over(&memory));
    let (slow, quick) = (Effect::gated(), Effect::gated());
    let late = spawn_once(&first, policy, slow.work(completed("first")));
    slow.started().await;
    first_store.fail([Verb::Renew], Fault::Hang);
    sleep(LEASE + Duration::from_millis(1)).await;
    let successor = spawn_once(&second, policy, quick.work(outcome));
    quick.started().await;
    slow.finish();
    settle_down().await;
    sleep(Duration::from_secs(1)).await;
    quick.finish();
    successor.await.unwrap().unwrap();
    let answer = late.await.unwrap().unwrap();
    idle(&first).await;
    answer
}

#[tokio::test(start_paused = true)]
async fn a_superseded_holder_is_answered_like_a_duplicate() {
    let answer = superseded(&conflict(), completed("second")).await;
    assert!(matches!(answer, Answer::InFlight { .. }), "{answer:?}");

    let answer = superseded(&wait(Duration::from_secs(5)), completed("second")).await;
    assert!(matches!(answer, Answer::Replayed { .. }), "{answer:?}");
    assert_eq!(answer.reply(), Some(&Reply::new("second")));

    let too_short = wait(Duration::from_millis(500));
    let answer = superseded(&too_short, completed("second")).await;
    assert!(matches!(answer, Answer::InFlight { .. }), "{answer:?}");

    // The successor failed for now. The first outcome is not recorded, so it is no answer (I4).
    let later = Outcome::FailedForNow(Reply::new("later"));
    let answer = superseded(&wait(Duration::from_secs(5)), later).await;
    assert!(matches!(answer, Answer::InFlight { .. }), "{answer:?}");
}

/// A release by a holder that lost its lease leaves the successor's record alone (trap 1).
#[tokio::test(start_paused = true)]
async fn a_late_release_is_refused() {
    let memory = memory();
    let ((first, first_store), (second, _)) = (engine_over(&memory), engine_over(&memory));
    let slow = Effect::gated();
    let later = Outcome::FailedForNow(Reply::new("later"));
    let late = spawn_once(&first, &conflict(), slow.work(later));
    slow.started().await;
    first_store.fail([Verb::Renew], Fault::Hang);
    sleep(LEASE + Duration::from_millis(1)).await;
    let work = Effect::new().work(completed("second"));
    once(&second, &conflict(), work).await.unwrap();
    slow.finish();
    let answer = late.await.unwrap().unwrap();
    assert_eq!(answer.reply(), Some(&Reply::new("second")), "the recorded outcome");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_ran_out_unreplaced_still_settles() {
    let (engine, store) = engine();
    let effect = Effect::gated();
    let first = spawn_once(&engine, &conflict(), effect.work(completed("first")));
    effect.started().await;
    store.fail([Verb::Renew], Fault::Unavailable);
    sleep(LEASE * 3).await;
    store.mend();
    sleep(LEASE).await;
    let duplicate = once(&engine, &conflict(), never).await.unwrap();
    assert!(matches!(duplicate, Answer::InFlight { .. }), "renewed again");
    effect.finish();
    let answer = first.await.unwrap().unwrap();
    assert!(matches!(answer, Answer::Executed { stored: Stored::Durable, .. }));
}

#[tokio::test(start_paused = true)]
async fn an_outcome_whose_record_expired_is_answered_as_gone() {
    let (engine, store) = engine();
    let short = policy().ttl(LEASE * 2).build().unwrap();
    let effect = Effect::gated();
    let first = spawn_once(&engine, &short, effect.work(completed("first")));
    effect.started().await;
    store.fail([Verb::Renew], Fault::Unavailable);
    sleep(LEASE * 3).await;
    effect.finish();
    let answer = first.await.unwrap().unwrap();
    assert!(matches!(answer, Answer::Executed { stored: Stored::Gone, .. }));
    assert_eq!(state(store.memory()).await, None);
}
