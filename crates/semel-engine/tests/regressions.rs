//! Regressions: late claims, and outages longer than a lease. `behaviour/recovery.rs` has more.
#![allow(clippy::all, clippy::pedantic, clippy::restriction, unused)]

use semel_core::*;
use semel_engine::*;
use semel_store::scripted::{Fault, ScriptedStore, Verb};
use semel_store::*;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

#[derive(Debug)]
struct TokioClock(Instant);
impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_000_000).plus(self.0.elapsed())
    }
}
const RECORD: RecordId = RecordId::from_bytes([7; 32]);
fn memory() -> MemoryStore {
    MemoryStore::with_clock(Arc::new(TokioClock(Instant::now())))
}
fn fp() -> Fingerprint {
    Fingerprint::new([("b", "x")])
}
async fn idle(e: &Engine) {
    while e.running() > 0 || e.waiting() > 0 {
        sleep(Duration::from_millis(5)).await
    }
}
async fn state(m: &MemoryStore) -> Option<State> {
    m.inspect(RECORD).await.unwrap().map(|r| r.state)
}

fn payments() -> Policy {
    Policy::builder()
        .on_abandoned(OnAbandoned::Hold)
        .on_unknown(OnUnknown::Hold)
        .ttl(Duration::from_secs(48 * 3600))
        .build()
        .unwrap()
}

/// Claim #1 is slow in the network, claim #2 (same owner) is granted, the upstream answers 503, the lease is
/// released; claim #1 arrives. No crash, nothing executed since. Under payments the key is dead for 48 h.
#[tokio::test(start_paused = true)]
async fn a_claim_that_arrives_after_the_release_is_released() {
    let m = memory();
    let store = Arc::new(ScriptedStore::over(m.clone()));
    let e = Engine::new(store.clone());
    store.fail_next(Verb::Claim, [Fault::TimedOut]);
    let a = e.attempt(RECORD, fp());
    let got = e.once(a, &payments(), |_| async { Outcome::FailedForNow(Reply::new("503")) }).await;
    assert!(matches!(got, Ok(Answer::Released { .. })), "first: {got:?}");
    idle(&e).await;
    assert_eq!(state(&m).await, Some(State::Released));
    // the retransmitted bytes of claim #1 arrive 1 s later
    sleep(Duration::from_secs(1)).await;
    let late = store.last_attempt().unwrap();
    let granted = m.claim(&late, &payments()).await.unwrap();
    assert!(matches!(granted, Claim::InFlight { .. }), "late claim: {granted:?}");
    for after in [1u64, 60, 3600, 24 * 3600] {
        sleep(Duration::from_secs(after)).await;
        let a = e.attempt(RECORD, fp());
        let got =
            e.once(a, &payments(), |_| async { Outcome::Completed(Reply::new("paid")) }).await;
        assert_eq!(got.unwrap().reply(), Some(&Reply::new("paid")), "retry after +{after}s");
    }
}

/// Three claims of one attempt are under way when it gives up (all timed out). The first arrives, and its
/// lease is found and released; then the second arrives. Nothing was ever executed.
#[tokio::test(start_paused = true)]
async fn a_second_claim_that_arrives_late_is_released() {
    let m = memory();
    let store = Arc::new(ScriptedStore::over(m.clone()));
    let e = Engine::new(store.clone());
    store.fail_next(Verb::Claim, [Fault::TimedOut, Fault::TimedOut, Fault::TimedOut]);
    let a = e.attempt(RECORD, fp());
    let got = e.once(a, &payments(), |_| async { Outcome::Completed(Reply::new("never")) }).await;
    assert!(got.is_err(), "first: {got:?}");
    let late = store.last_attempt().unwrap();
    let _ = m.claim(&late, &payments()).await.unwrap(); // claim #1 lands
    idle(&e).await; // finds and releases the lease
    assert_eq!(state(&m).await, Some(State::Released));
    sleep(Duration::from_secs(2)).await;
    let g = m.claim(&late, &payments()).await.unwrap(); // claim #2 lands
    assert!(matches!(g, Claim::InFlight { .. }), "claim #2 lands: {g:?}");
    sleep(Duration::from_secs(3600)).await;
    let a = e.attempt(RECORD, fp());
    let got = e.once(a, &payments(), |_| async { Outcome::Completed(Reply::new("paid")) }).await;
    assert!(matches!(got, Ok(Answer::Executed { .. })), "retry an hour later: {got:?}");
}

/// The claim was granted without acknowledgement, and then an outage lasts six minutes.
#[tokio::test(start_paused = true)]
async fn an_unacknowledged_lease_is_released_after_a_long_outage() {
    let m = memory();
    let store = Arc::new(ScriptedStore::over(m.clone()));
    let e = Engine::new(store.clone());
    store.fail_next(Verb::Claim, [Fault::TimedOutApplied]);
    store.fail_all(Fault::Unavailable);
    let a = e.attempt(RECORD, fp());
    let got = e.once(a, &payments(), |_| async { Outcome::Completed(Reply::new("never")) }).await;
    assert!(got.is_err(), "first: {got:?}");
    sleep(Duration::from_secs(6 * 60)).await;
    assert_eq!(e.running(), 1, "still probing");
    store.mend();
    sleep(Duration::from_secs(3600)).await;
    let a = e.attempt(RECORD, fp());
    let got = e.once(a, &payments(), |_| async { Outcome::Completed(Reply::new("paid")) }).await;
    assert!(matches!(got, Ok(Answer::Executed { .. })), "retry an hour after the outage: {got:?}");
}

/// The upstream is down (503, released) for most of the ttl; the work then succeeds; a retry ten minutes later
/// executes again.
#[tokio::test(start_paused = true)]
async fn a_settlement_after_many_releases_lives_for_its_whole_ttl() {
    let e = Engine::new(memory());
    let p = Policy::default(); // ttl 24 h
    let once = |o: Outcome| {
        let a = e.attempt(RECORD, fp());
        let e = e.clone();
        let p = p.clone();
        async move { e.once(a, &p, move |_| async move { o }).await }
    };
    once(Outcome::FailedForNow(Reply::new("503"))).await.unwrap();
    sleep(Duration::from_secs(24 * 3600 - 300)).await;
    once(Outcome::Completed(Reply::new("charge ch_1"))).await.unwrap();
    sleep(Duration::from_secs(600)).await;
    let retry = once(Outcome::Completed(Reply::new("charge ch_2"))).await.unwrap();
    assert_eq!(retry.reply(), Some(&Reply::new("charge ch_1")), "t=24h05");
}

/// One process, no crash. The work is done, the client got its outcome (`Stored::NotYet`), and an outage lasted
/// longer than the lease. The first retry after the outage comes before the background settlement's next try.
#[tokio::test(start_paused = true)]
async fn a_retry_does_not_repeat_work_of_its_own_process_after_an_outage() {
    let m = memory();
    let store = Arc::new(ScriptedStore::over(m.clone()));
    let e = Engine::new(store.clone());
    let p = Policy::default();
    let gate = tokio_util::sync::CancellationToken::new();
    let g = gate.clone();
    let a = e.attempt(RECORD, fp());
    let first = tokio::spawn({
        let (e, p) = (e.clone(), p.clone());
        async move {
            e.once(a, &p, move |_| async move {
                g.cancelled().await;
                Outcome::Completed(Reply::new("charge ch_1"))
            })
            .await
        }
    });
    sleep(Duration::from_millis(10)).await;
    store.fail_all(Fault::Unavailable);
    gate.cancel();
    let answer = first.await.unwrap().unwrap();
    assert!(matches!(answer, Answer::Executed { stored: Stored::NotYet, .. }), "{answer:?}");
    sleep(Duration::from_secs(60)).await;
    store.mend();
    assert_eq!(e.running(), 1, "still to be settled");
    let a = e.attempt(RECORD, fp());
    let retry = e.once(a, &p, |_| async { Outcome::Completed(Reply::new("charge ch_2!!")) }).await;
    assert!(matches!(retry, Ok(Answer::InFlight { .. })), "retry at once: {retry:?}");
    idle(&e).await;
    let a = e.attempt(RECORD, fp());
    let later = e.once(a, &p, |_| async { Outcome::Completed(Reply::new("3")) }).await.unwrap();
    assert_eq!(later.reply(), answer.reply());
}

/// The same while the work still runs: a retry must not start a second execution in the same process.
#[tokio::test(start_paused = true)]
async fn no_second_execution_starts_in_the_same_process() {
    let m = memory();
    let store = Arc::new(ScriptedStore::over(m.clone()));
    let e = Engine::new(store.clone());
    let p = Policy::default();
    let a = e.attempt(RECORD, fp());
    let first = tokio::spawn({
        let (e, p) = (e.clone(), p.clone());
        async move {
            e.once(a, &p, move |_| async move {
                sleep(Duration::from_secs(120)).await;
                Outcome::Completed(Reply::new("first"))
            })
            .await
        }
    });
    sleep(Duration::from_millis(10)).await;
    store.fail_all(Fault::Unavailable);
    sleep(Duration::from_secs(45)).await;
    store.mend();
    let a = e.attempt(RECORD, fp());
    let got = e
        .once(a, &p, |_| async {
            unreachable!("a second execution starts while the first runs in the same process")
        })
        .await;
    assert!(matches!(got, Ok(Answer::InFlight { .. })), "retry: {got:?}");
    let first = first.await.unwrap().unwrap();
    assert_eq!(first.reply(), Some(&Reply::new("first")));
}

/// The outage ends at a random moment, and a client retries once a second: no retry wins against the settlement.
#[tokio::test(start_paused = true)]
async fn no_retry_wins_against_the_pending_settlement() {
    let mut wins = 0;
    let runs = 400u64;
    for i in 0..runs {
        let m = memory();
        let store = Arc::new(ScriptedStore::over(m.clone()));
        let e = Engine::new(store.clone());
        let p = Policy::default();
        let a = e.attempt(RECORD, fp());
        let _ = {
            store.fail([Verb::Settle, Verb::Renew], Fault::Unavailable);
            e.once(a, &p, |_| async { Outcome::Completed(Reply::new("1")) }).await
        };
        store.fail_all(Fault::Unavailable);
        sleep(Duration::from_millis(60_000 + i * 137 % 10_000)).await;
        store.mend();
        sleep(Duration::from_millis(i * 389 % 1_000)).await; // the phase of the client's retries, once a second
        let a = e.attempt(RECORD, fp());
        if let Ok(Answer::Executed { .. }) =
            e.once(a, &p, |_| async { Outcome::Completed(Reply::new("2")) }).await
        {
            wins += 1
        }
        idle(&e).await;
    }
    assert_eq!(wins, 0, "executed twice in {runs} outages of about a minute");
}
