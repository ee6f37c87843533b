//! Keys that are used again after their record has expired.

use std::sync::Arc;
use std::time::Duration;

use semel_core::{Policy, Reply, State, Timestamp};
use semel_store::{ManualClock, MemoryStore};
use tokio::task::yield_now;

use crate::support::{
    Effect, LEASE, Verb, completed, engine_over, never, policy, spawn_once, state,
};

const TTL: Duration = Duration::from_secs(10);

fn waits() -> Policy {
    let in_flight = semel_core::InFlight::Wait(Duration::from_mins(1));
    policy().ttl(TTL).in_flight(in_flight).build().unwrap()
}

/// Lets other tasks run until a condition holds, without time passing.
async fn meanwhile(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..10_000 {
        if holds().await {
            return;
        }
        yield_now().await;
    }
    panic!("never happened: {what}");
}

/// The simulator found this. A settlement whose acknowledgement is late belongs to a life that is over: a waiter for
/// the next life must not get its outcome (I4).
#[tokio::test(start_paused = true)]
async fn a_late_notification_of_an_expired_life_is_no_answer_in_the_next_life() {
    const { assert!(LEASE.as_secs() < TTL.as_secs()) };
    let clock = ManualClock::at(Timestamp::from_millis(1_000_000));
    let memory = MemoryStore::with_clock(Arc::new(clock.clone()));
    let ((here, slow), (there, _)) = (engine_over(&memory), engine_over(&memory));
    let is_settled = async || matches!(state(&memory).await, Some(State::Settled(_)));

    // The first life is settled; its acknowledgement is still on the way when it expires.
    slow.yield_in([Verb::Settle], 1_000);
    let first = spawn_once(&here, &waits(), Effect::new().work(completed("first")));
    meanwhile("the first is settled", is_settled).await;
    clock.advance(TTL);

    // The second is in flight on another node, and a duplicate waits for it here.
    let effect = Effect::gated();
    let second = spawn_once(&there, &waits(), effect.work(completed("second")));
    meanwhile("the second executes", async || effect.runs() == 1).await;
    let waiter = spawn_once(&here, &waits(), never);
    meanwhile("the duplicate waits", async || here.waiting() == 1).await;
    assert!(!first.is_finished(), "the answer came too early for this test");
    meanwhile("the first is answered", async || first.is_finished()).await;

    effect.finish();
    assert_eq!(second.await.unwrap().unwrap().reply(), Some(&Reply::new("second")));
    assert_eq!(waiter.await.unwrap().unwrap().reply(), Some(&Reply::new("second")));
    assert_eq!(first.await.unwrap().unwrap().reply(), Some(&Reply::new("first")));
}
