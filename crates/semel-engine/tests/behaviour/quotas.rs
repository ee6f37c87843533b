//! I10, trap 25: one scope cannot use up the capacity, and an attempt beyond the quota leaves no record.

use std::num::NonZero;
use std::time::Duration;

use semel_core::{
    InFlight, Key, OnStoreDown, OnUnknown, Outcome, Policy, RecordId, Reply, Scope, State,
};
use semel_engine::{
    Answer, Engine, EngineError, Execution, Quota, Rate, ScopeLimits, Stored, TooManyKeys,
};
use semel_store::Store as _;
use tokio::task::JoinHandle;
use tokio::time::advance;

use crate::support::{
    Answered, Effect, Fault, Verb, completed, conflict, engine, fingerprint, idle, never, policy,
    until, wait,
};

const PATIENT: Duration = Duration::from_mins(1);

fn id(key: &str) -> RecordId {
    RecordId::new("test", &Scope::global(), &Key::parse(key).unwrap())
}

fn quota(executions_max: u32, new_keys: u32) -> Quota {
    let new_keys = NonZero::new(new_keys).map(Rate::per_second);
    Quota::of("ann", ScopeLimits { executions_max, new_keys, ..ScopeLimits::default() })
}

async fn attempt<W, F>(
    engine: &Engine,
    key: &str,
    policy: &Policy,
    quota: Quota,
    work: W,
) -> Answered
where
    W: FnOnce(Execution) -> F + Send + 'static,
    F: Future<Output = Outcome> + Send + 'static,
{
    let attempt = engine.attempt(id(key), fingerprint(key));
    engine.once_within(attempt, policy, Some(quota), work).await
}

/// Starts an execution of the scope, up to its gate.
async fn begin(engine: &Engine, key: &'static str, quota: Quota) -> (Effect, JoinHandle<Answered>) {
    let effect = Effect::gated();
    let (engine, work) = (engine.clone(), effect.work(completed(key)));
    let task = tokio::spawn(async move { attempt(&engine, key, &conflict(), quota, work).await });
    effect.started().await;
    (effect, task)
}

async fn complete(engine: &Engine, key: &str, quota: Quota) -> Answered {
    attempt(engine, key, &conflict(), quota, Effect::new().work(completed(key))).await
}

fn is_full<T>(answer: &Result<T, EngineError>) -> bool {
    matches!(answer, Err(EngineError::TooManyKeys(TooManyKeys::Executions { .. })))
}

fn is_too_soon<T>(answer: &Result<T, EngineError>) -> bool {
    matches!(answer, Err(EngineError::TooManyKeys(TooManyKeys::NewKeys { .. })))
}

#[tokio::test(start_paused = true)]
async fn an_execution_beyond_the_quota_leaves_no_record() {
    let (engine, store) = engine();
    let (effect, first) = begin(&engine, "first", quota(1, 0)).await;
    let refused = attempt(&engine, "second", &conflict(), quota(1, 0), never).await;
    assert!(is_full(&refused), "{refused:?}");
    assert_eq!(store.calls(Verb::Claim), 1);
    assert_eq!(store.memory().inspect(id("second")).await.unwrap(), None);
    assert_eq!(engine.running(), 1);
    // Other scopes have permits.
    let bob = Quota::of("bob", ScopeLimits { executions_max: 1, ..ScopeLimits::default() });
    assert!(complete(&engine, "other", bob).await.is_ok());
    effect.finish();
    first.await.unwrap().unwrap();
    let again = complete(&engine, "second", quota(1, 0)).await;
    assert!(matches!(again, Ok(Answer::Executed { .. })), "{again:?}");
}

/// A client at its limit still gets its recorded outcomes.
#[tokio::test(start_paused = true)]
async fn attempts_that_execute_nothing_need_no_permit() {
    let (engine, store) = engine();
    let full = quota(1, 0);
    complete(&engine, "settled", full).await.unwrap();
    let holding = policy().on_unknown(OnUnknown::Hold).build().unwrap();
    let unknown = |_| async { Outcome::Unknown(Reply::default()) };
    attempt(&engine, "held", &holding, full, unknown).await.unwrap();
    let for_now = |_| async { Outcome::FailedForNow(Reply::default()) };
    attempt(&engine, "released", &conflict(), full, for_now).await.unwrap();
    let elsewhere = engine.attempt(id("elsewhere"), fingerprint("elsewhere"));
    store.memory().claim(&elsewhere, &conflict()).await.unwrap();
    let (effect, first) = begin(&engine, "running", full).await;
    let claims = store.calls(Verb::Claim);

    let replayed = attempt(&engine, "settled", &conflict(), full, never).await.unwrap();
    assert_eq!(replayed.reply(), Some(&Reply::new("settled")));
    let own = attempt(&engine, "running", &conflict(), full, never).await.unwrap();
    let theirs = attempt(&engine, "elsewhere", &conflict(), full, never).await.unwrap();
    assert!(matches!((own, theirs), (Answer::InFlight { .. }, Answer::InFlight { .. })));
    let held = attempt(&engine, "held", &holding, full, never).await.unwrap();
    assert!(matches!(held, Answer::Unknown { reply: None }));
    let other = engine.attempt(id("settled"), fingerprint("another request"));
    let mismatch = engine.once_within(other, &conflict(), Some(full), never).await.unwrap();
    assert!(matches!(mismatch, Answer::Mismatch));
    // This one would execute.
    assert!(is_full(&attempt(&engine, "released", &conflict(), full, never).await));
    assert_eq!(store.calls(Verb::Claim), claims, "nothing was claimed");
    effect.finish();
    first.await.unwrap().unwrap();
}

/// An execution is over when its outcome is settled.
#[tokio::test(start_paused = true)]
async fn an_execution_counts_until_it_is_settled() {
    let (engine, store) = engine();
    store.fail([Verb::Settle], Fault::Unavailable);
    let answer = complete(&engine, "first", quota(1, 0)).await.unwrap();
    assert!(matches!(answer, Answer::Executed { stored: Stored::NotYet, .. }));
    assert!(is_full(&complete(&engine, "second", quota(1, 0)).await));
    store.mend();
    idle(&engine).await;
    assert!(complete(&engine, "second", quota(1, 0)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn waiting_duplicates_hold_no_permit_and_are_answered() {
    let (engine, _store) = engine();
    let (effect, first) = begin(&engine, "first", quota(2, 0)).await;
    let waiters: Vec<_> = (0..5)
        .map(|_| {
            let engine = engine.clone();
            let wait = wait(PATIENT);
            tokio::spawn(async move { attempt(&engine, "first", &wait, quota(2, 0), never).await })
        })
        .collect();
    until("they wait", || engine.waiting() == 5).await;
    assert!(complete(&engine, "second", quota(2, 0)).await.is_ok());
    effect.finish();
    first.await.unwrap().unwrap();
    for waiter in waiters {
        assert!(matches!(waiter.await.unwrap(), Ok(Answer::Replayed { .. })));
    }
}

/// Also a waiter that polls the store, since the work runs on another node.
#[tokio::test(start_paused = true)]
async fn a_waiter_holds_no_permit_between_its_polls() {
    let (engine, store) = engine();
    let elsewhere = engine.attempt(id("k"), fingerprint("k"));
    store.memory().claim(&elsewhere, &conflict()).await.unwrap();
    let waiting = engine.clone();
    let waiter = tokio::spawn(async move {
        attempt(&waiting, "k", &wait(PATIENT), quota(1, 0), |_| async { completed("k") }).await
    });
    until("it waits", || engine.waiting() == 1).await;
    let answer = complete(&engine, "other", quota(1, 0)).await;
    assert!(matches!(answer, Ok(Answer::Executed { .. })), "{answer:?}");
    waiter.abort();
}

/// A waiter that could execute, in a scope without a permit, goes on waiting.
#[tokio::test(start_paused = true)]
async fn a_waiter_executes_once_a_permit_is_free() {
    let (engine, store) = engine();
    let wait = policy().in_flight(InFlight::Wait(PATIENT)).build().unwrap();
    let elsewhere = engine.attempt(id("k"), fingerprint("k"));
    let semel_core::Claim::Execute(lease) = store.memory().claim(&elsewhere, &wait).await.unwrap()
    else {
        panic!("nothing was claimed before")
    };
    let (busy, first) = begin(&engine, "busy", quota(1, 0)).await;
    let effect = Effect::new();
    let (waiting, work) = (engine.clone(), effect.work(completed("k")));
    let waiter =
        tokio::spawn(async move { attempt(&waiting, "k", &wait, quota(1, 0), work).await });
    until("it waits", || engine.waiting() == 1).await;
    store.memory().release(&lease, semel_core::Release::Retry).await.unwrap();
    let looks = store.calls(Verb::Inspect);
    until("it has looked again", || store.calls(Verb::Inspect) > looks + 1).await;
    assert_eq!(effect.runs(), 0);
    busy.finish();
    first.await.unwrap().unwrap();
    assert!(matches!(waiter.await.unwrap(), Ok(Answer::Executed { .. })));
}

#[tokio::test(start_paused = true)]
async fn new_keys_are_refused_beyond_their_rate_and_known_ones_are_not() {
    let (engine, store) = engine();
    let two = quota(100, 2);
    let for_now = |_| async { Outcome::FailedForNow(Reply::default()) };
    attempt(&engine, "released", &conflict(), two, for_now).await.unwrap();
    complete(&engine, "settled", two).await.unwrap();

    let refused = complete(&engine, "new", two).await;
    let Err(EngineError::TooManyKeys(TooManyKeys::NewKeys { again_in, .. })) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(again_in, Duration::from_millis(500));
    assert_eq!(store.memory().inspect(id("new")).await.unwrap(), None);
    assert!(matches!(complete(&engine, "settled", two).await, Ok(Answer::Replayed { .. })));
    let retry = complete(&engine, "released", two).await;
    assert!(matches!(retry, Ok(Answer::Executed { .. })), "{retry:?}");

    advance(again_in).await;
    assert!(complete(&engine, "new", two).await.is_ok());
    assert!(is_too_soon(&complete(&engine, "newer", two).await));
}

#[tokio::test(start_paused = true)]
async fn retries_use_up_no_new_keys() {
    let (engine, store) = engine();
    let two = quota(100, 2);
    let for_now = |_| async { Outcome::FailedForNow(Reply::default()) };
    for _ in 0..50 {
        attempt(&engine, "k", &conflict(), two, for_now).await.unwrap();
    }
    complete(&engine, "k", two).await.unwrap();
    for _ in 0..50 {
        complete(&engine, "k", two).await.unwrap();
    }
    assert!(complete(&engine, "new", two).await.is_ok());
    assert!(is_too_soon(&complete(&engine, "newer", two).await));
    assert_eq!(store.calls(Verb::Inspect), 1, "only where there was no room");
}

fn bounded(records: u64, record_bytes: u64) -> Quota {
    let ttl = conflict().ttl();
    let rate = |count| NonZero::new(count).map(|count| Rate::of(count, ttl));
    let (records, record_bytes) = (rate(records), rate(record_bytes));
    Quota::of("ann", ScopeLimits { records, record_bytes, ..ScopeLimits::default() })
}

#[tokio::test(start_paused = true)]
async fn records_are_limited_and_refilled_over_time() {
    let (engine, store) = engine();
    let two = bounded(2, 0);
    let for_now = |_| async { Outcome::FailedForNow(Reply::default()) };
    attempt(&engine, "released", &conflict(), two, for_now).await.unwrap();
    complete(&engine, "settled", two).await.unwrap();

    let refused = complete(&engine, "new", two).await;
    let Err(EngineError::TooManyKeys(TooManyKeys::Records { again_in, .. })) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(again_in, conflict().ttl() / 2);
    assert_eq!(store.memory().inspect(id("new")).await.unwrap(), None);
    // A key with a record is answered as usual, and begins none.
    for _ in 0..10 {
        assert!(matches!(complete(&engine, "settled", two).await, Ok(Answer::Replayed { .. })));
    }
    assert!(matches!(complete(&engine, "released", two).await, Ok(Answer::Executed { .. })));

    advance(again_in).await;
    assert!(complete(&engine, "new", two).await.is_ok());
    assert!(complete(&engine, "newer", two).await.is_err());
}

/// Bytes are counted when they are recorded: an attempt that begins without a deficit executes, however large its
/// reply.
#[tokio::test(start_paused = true)]
async fn a_scope_with_a_deficit_of_bytes_begins_no_record() {
    let (engine, store) = engine();
    let thousand = bounded(0, 1_000);
    let large = |_| async { Outcome::Completed(Reply::new(vec![b'x'; 1_500])) };
    let (effect, running) = begin(&engine, "running", thousand).await;
    attempt(&engine, "large", &conflict(), thousand, large).await.unwrap();

    let refused = complete(&engine, "new", thousand).await;
    let Err(EngineError::TooManyKeys(TooManyKeys::RecordBytes { again_in, .. })) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(again_in, conflict().ttl() / 2);
    assert_eq!(store.memory().inspect(id("new")).await.unwrap(), None);
    assert!(matches!(complete(&engine, "large", thousand).await, Ok(Answer::Replayed { .. })));
    let own = attempt(&engine, "running", &conflict(), thousand, never).await;
    assert!(matches!(own, Ok(Answer::InFlight { .. })), "{own:?}");

    advance(again_in).await;
    assert!(complete(&engine, "new", thousand).await.is_ok());
    effect.finish();
    running.await.unwrap().unwrap();
}

/// A reply that is not recorded takes no space in the store.
#[tokio::test(start_paused = true)]
async fn bytes_of_replies_that_are_not_recorded_do_not_count() {
    let (engine, _store) = engine();
    let one = bounded(0, 1);
    let for_now = |_| async { Outcome::FailedForNow(Reply::new("a long reply")) };
    attempt(&engine, "released", &conflict(), one, for_now).await.unwrap();
    complete(&engine, "settled", one).await.unwrap();
    assert!(complete(&engine, "new", one).await.is_err(), "seven bytes were one too many");
}

#[tokio::test(start_paused = true)]
async fn quotas_hold_during_an_outage() {
    let (engine, store) = engine();
    let open = policy().on_store_down(OnStoreDown::Open).build().unwrap();
    let (effect, first) = begin(&engine, "first", quota(2, 0)).await;
    store.fail_all(Fault::Unavailable);
    let bypassing = Effect::gated();
    let (other, work) = (engine.clone(), bypassing.work(completed("second")));
    let policy = open.clone();
    let second =
        tokio::spawn(async move { attempt(&other, "second", &policy, quota(2, 0), work).await });
    bypassing.started().await;
    let third = attempt(&engine, "third", &open, quota(2, 0), never).await;
    assert!(is_full(&third), "what executes without protection counts: {third:?}");
    bypassing.finish();
    assert!(matches!(second.await.unwrap(), Ok(Answer::Bypassed { .. })));
    store.mend();
    effect.finish();
    first.await.unwrap().unwrap();
}

/// A claim that surely failed has begun no key; one that may have been granted counts as one that has.
#[tokio::test(start_paused = true)]
async fn a_failed_claim_returns_the_permit_of_its_key_and_a_claim_in_doubt_does_not() {
    let (engine, store) = engine();
    let one = quota(100, 1);
    store.fail_next(Verb::Claim, [Fault::Unavailable]);
    assert!(matches!(complete(&engine, "a", one).await, Err(EngineError::Store(_))));
    assert!(complete(&engine, "a", one).await.is_ok());

    advance(Duration::from_secs(1)).await;
    store.fail([Verb::Claim], Fault::TimedOutApplied);
    assert!(complete(&engine, "b", one).await.is_err());
    store.mend();
    assert!(is_too_soon(&complete(&engine, "c", one).await));
    idle(&engine).await;
    let state = store.memory().inspect(id("b")).await.unwrap().map(|record| record.state);
    assert_eq!(state, Some(State::Released), "its lease is released");
}

/// The limit holds for any number of concurrent attempts.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_executions_stay_within_the_limit() {
    let (engine, _store) = engine();
    let effect = Effect::gated();
    let tasks: Vec<_> = (0..40)
        .map(|number| {
            let (engine, work) = (engine.clone(), effect.work(completed("done")));
            tokio::spawn(async move {
                attempt(&engine, &format!("k-{number}"), &conflict(), quota(7, 0), work).await
            })
        })
        .collect();
    until("the others are refused", || {
        tasks.iter().filter(|task| task.is_finished()).count() == 33
    })
    .await;
    assert_eq!((effect.runs(), engine.running()), (7, 7));
    effect.finish();
    let mut executed = 0;
    for task in tasks {
        match task.await.unwrap() {
            Ok(Answer::Executed { .. }) => executed += 1,
            refused => assert!(is_full(&refused), "{refused:?}"),
        }
    }
    assert_eq!(executed, 7);
}
