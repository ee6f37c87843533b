//! I9, trap 3: once claimed, an execution runs to its settlement even if its client hangs up.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use http::{Request, Response};
use semel_core::State;
use tower_service::Service as _;

use crate::support::{Api, Handler, Step, TestBody, Verb, charge, policy};

/// Sends a request and hangs up after so many polls. Says whether it was answered before.
async fn hang_up_after(api: &Api, request: Request<TestBody>, polls: usize) -> bool {
    let mut answer = Box::pin(api.service.clone().call(request));
    for _ in 0..polls {
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(answer) = Pin::new(&mut answer).poll(&mut context) {
            assert_eq!(answer.unwrap().status(), 201);
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

/// An API in which everything takes some polls: the store, the handler, the body of its reply.
fn slow_api() -> Api {
    let handler = Handler::replying(|seen| {
        let reply = Step::Data(format!("run {}", seen.run).into());
        let body = TestBody::of([Step::Yield, reply, Step::Yield]);
        Response::builder().status(201).body(body).unwrap()
    });
    let api = Api::new(policy(), handler.yielding(3));
    api.store.yield_in(Verb::ALL, 2);
    api
}

#[tokio::test]
async fn an_execution_outlives_its_client_wherever_it_hangs_up() {
    let mut states = Vec::new();
    for polls in 1.. {
        let api = slow_api();
        let answered = hang_up_after(&api, charge("k", "100"), polls).await;
        states.push(match (api.handler.runs(), api.state().await) {
            (_, None) => "claiming",
            (0, _) => "claimed",
            (_, Some(State::Settled(_))) => "settled",
            (_, _) => "executing",
        });
        api.idle().await;
        assert_eq!(api.handler.runs(), 1, "after {polls} polls");
        assert!(matches!(api.state().await, Some(State::Settled(_))), "after {polls} polls");
        let retry = api.send(charge("k", "100")).await;
        assert!(retry.is_replayed(), "after {polls} polls: {retry:?}");
        assert_eq!((retry.status, retry.text()), (201, "run 1"));
        if answered {
            break;
        }
    }
    // It hung up at all of these points.
    states.dedup();
    assert_eq!(states, ["claiming", "claimed", "executing", "settled"]);
}

#[tokio::test]
async fn a_detached_execution_that_failed_for_now_is_released() {
    let api = Api::new(policy(), Handler::answering(503).yielding(5));
    assert!(!hang_up_after(&api, charge("k", "100"), 1).await);
    api.idle().await;
    assert_eq!((api.state().await, api.handler.runs()), (Some(State::Released), 1));
    assert_eq!(api.send(charge("k", "100")).await.text(), "run 2");
}

#[tokio::test]
async fn a_client_that_hangs_up_before_its_body_is_there_leaves_no_trace() {
    let api = Api::new(policy(), Handler::counting());
    let body = TestBody::of([Step::data("1"), Step::Yield, Step::Yield, Step::data("00")]);
    assert!(!hang_up_after(&api, charge("k", body), 2).await);
    assert!(!hang_up_after(&api, charge("k", "100"), 0).await, "never polled");
    assert_eq!((api.store.calls(Verb::Claim), api.engine.running(), api.handler.runs()), (0, 0, 0));
}

/// Trap 8: a waiter has nothing to write with.
#[tokio::test]
async fn a_waiting_duplicate_that_hangs_up_disturbs_nothing() {
    let (handler, gate) = Handler::counting().gated();
    let wait = semel_core::InFlight::Wait(std::time::Duration::from_mins(5));
    let api = Api::new(policy().in_flight(wait), handler);
    let first = api.spawn(charge("k", "100"));
    api.handler.started(1).await;
    let before = api.record().await;
    assert!(!hang_up_after(&api, charge("k", "100"), 20).await);
    crate::support::until("the duplicate has gone", || api.engine.waiting() == 0).await;
    assert_eq!(api.record().await, before);
    gate.open();
    let first = first.await.unwrap();
    api.send(charge("k", "100")).await.assert_replays(&first);
    assert_eq!(api.handler.runs(), 1);
}
