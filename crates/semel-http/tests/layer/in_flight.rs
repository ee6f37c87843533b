//! A duplicate arrives while the first attempt is still executing.

use std::time::Duration;

use semel_core::InFlight;
use tokio::time::Instant;

use crate::support::{Api, Handler, LEASE, Reply, charge, policy, until};

#[tokio::test]
async fn a_duplicate_gets_retry_after_and_then_the_response() {
    for (in_flight, status) in [(InFlight::Conflict, 409), (InFlight::Accepted, 202)] {
        let (handler, gate) = Handler::counting().gated();
        let api = Api::new(policy().in_flight(in_flight), handler);
        let first = api.spawn(charge("k", "100"));
        api.handler.started(1).await;

        let duplicate = api.send(charge("k", "100")).await;
        duplicate.assert_problem(status, "request_in_progress", true);
        duplicate.assert_retry_after(true);
        assert!(!duplicate.is_replayed());

        gate.open();
        let first = first.await.unwrap();
        assert_eq!((first.status, first.text()), (201, "run 1"));
        api.send(charge("k", "100")).await.assert_replays(&first);
        assert_eq!(api.handler.runs(), 1);
    }
}

#[tokio::test]
async fn a_duplicate_that_waits_gets_the_answer_replayed() {
    let (handler, gate) = Handler::counting().gated();
    let wait = InFlight::Wait(Duration::from_mins(5));
    let api = Api::new(policy().in_flight(wait), handler);
    let first = api.spawn(charge("k", "100"));
    api.handler.started(1).await;
    let waiting: Vec<_> = (0..3).map(|_| api.spawn(charge("k", "100"))).collect();
    until("all duplicates wait", || api.engine.waiting() == 3).await;

    gate.open();
    let first = first.await.unwrap();
    assert!(!first.is_replayed());
    for duplicate in waiting {
        duplicate.await.unwrap().assert_replays(&first);
    }
    assert_eq!(api.handler.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_past_the_wait_timeout_gets_retry_after() {
    let (handler, gate) = Handler::counting().gated();
    let wait = InFlight::Wait(Duration::from_secs(7));
    let api = Api::new(policy().in_flight(wait), handler);
    let first = api.spawn(charge("k", "100"));
    api.handler.started(1).await;

    let began = Instant::now();
    let duplicate = api.send(charge("k", "100")).await;
    assert!(began.elapsed() >= Duration::from_secs(7), "{:?}", began.elapsed());
    duplicate.assert_problem(409, "request_in_progress", true);
    duplicate.assert_retry_after(true);

    gate.open();
    assert_eq!(first.await.unwrap().status, 201);
    assert_eq!(api.handler.runs(), 1);
}

#[tokio::test]
async fn a_duplicate_that_waits_for_work_which_fails_for_now_executes_it() {
    let (handler, gate) = Handler::new(|seen| {
        let status = if seen.run == 1 { 503 } else { 201 };
        Ok(http::Response::builder().status(status).body("done".into()).unwrap())
    })
    .gated();
    let wait = InFlight::Wait(Duration::from_mins(5));
    let api = Api::new(policy().in_flight(wait), handler);
    let first = api.spawn(charge("k", "100"));
    api.handler.started(1).await;
    let duplicate = api.spawn(charge("k", "100"));
    until("the duplicate waits", || api.engine.waiting() == 1).await;

    gate.open();
    assert_eq!(first.await.unwrap().status, 503);
    let second = duplicate.await.unwrap();
    assert_eq!(second.status, 201);
    assert!(!second.is_replayed());
    assert_eq!(api.handler.last().header("idempotency-fence"), Some("2"));
}

fn retry_after(reply: &Reply, status: u16) -> u64 {
    reply.assert_problem(status, "request_in_progress", true);
    reply.header("retry-after").unwrap().parse().unwrap()
}

/// The manual clock stands for a store whose holder does not renew: it is dead, or cut off.
#[tokio::test(start_paused = true)]
async fn retry_after_is_the_lease_end_when_a_renewal_is_overdue() {
    for (in_flight, status) in [
        (InFlight::Conflict, 409),
        (InFlight::Accepted, 202),
        (InFlight::Wait(Duration::from_millis(1)), 409),
    ] {
        let (handler, gate) = Handler::counting().gated();
        let one = Api::new(policy(), handler);
        let other = one.beside(policy().in_flight(in_flight), Handler::counting()).clocked();
        let first = one.spawn(charge("k", "100"));
        one.handler.started(1).await;
        assert_eq!(retry_after(&other.send(charge("k", "100")).await, status), 1);

        one.clock.advance(LEASE / 2);
        let silent = other.send(charge("k", "100")).await;
        assert_eq!(retry_after(&silent, status), 16);
        assert!(silent.text().contains("has not been renewed since"), "{}", silent.text());

        // A client that obeys finds the lease over.
        one.clock.advance(Duration::from_secs(16));
        assert_eq!(other.send(charge("k", "100")).await.status, 201);
        gate.open();
        assert!(first.await.unwrap().is_replayed());
    }
}

/// The process that executes knows that it lives, also if it has missed a renewal since its store is away.
#[tokio::test(start_paused = true)]
async fn a_duplicate_of_own_work_is_not_called_silent() {
    let (handler, gate) = Handler::counting().gated();
    let api = Api::new(policy(), handler).clocked();
    let first = api.spawn(charge("k", "100"));
    api.handler.started(1).await;
    api.clock.advance(LEASE / 2);
    let duplicate = api.send(charge("k", "100")).await;
    duplicate.assert_problem(409, "request_in_progress", true);
    assert!(duplicate.text().contains("still running"), "{}", duplicate.text());
    gate.open();
    assert_eq!(first.await.unwrap().status, 201);
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_the_usual_latency_while_the_lease_is_renewed() {
    let (handler, gate) = Handler::counting().gated();
    let api = Api::new(policy(), handler).clocked();
    let usual = api.spawn(charge("usual", "100"));
    api.handler.started(1).await;
    tokio::time::advance(Duration::from_millis(4_200)).await;
    gate.open();
    assert_eq!(usual.await.unwrap().status, 201);

    let (handler, gate) = Handler::counting().gated();
    let slow = api.served_by(handler);
    let first = slow.spawn(charge("k", "100"));
    slow.handler.started(1).await;
    assert_eq!(retry_after(&slow.send(charge("k", "100")).await, 409), 5);
    gate.open();
    assert_eq!(first.await.unwrap().status, 201);
}

/// It knows no more than how long the work usually takes.
#[tokio::test(start_paused = true)]
async fn without_the_store_clock_retry_after_is_short() {
    let (handler, gate) = Handler::counting().gated();
    let api = Api::new(policy(), handler);
    let first = api.spawn(charge("k", "100"));
    api.handler.started(1).await;
    api.clock.advance(LEASE / 2);
    assert_eq!(retry_after(&api.send(charge("k", "100")).await, 409), 1);
    gate.open();
    assert_eq!(first.await.unwrap().status, 201);
}
