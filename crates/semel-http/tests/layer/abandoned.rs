//! The lease ran out unsettled, and another node has to answer. The first holder is still at work, which is
//! the harder case: its late outcome must not count against the recorded one. Its own node would join it.

use http::Response;
use semel_core::{OnAbandoned, OnUnknown, Settlement, State};
use semel_http::OutcomeKind;
use tokio::task::JoinHandle;

use crate::support::{Api, Handler, LEASE, Reply, charge, policy};

/// A node beside one whose execution has outlived its lease.
async fn abandoned(on_abandoned: OnAbandoned) -> (Api, JoinHandle<Reply>, impl FnOnce()) {
    let (handler, gate) = Handler::counting().gated();
    let holder = Api::new(policy().on_abandoned(on_abandoned), handler);
    let first = holder.spawn(charge("k", "100"));
    holder.handler.started(1).await;
    holder.clock.advance(LEASE);
    let api = holder.beside(policy().on_abandoned(on_abandoned), holder.handler.clone());
    (api, first, move || gate.open())
}

#[tokio::test]
async fn the_next_attempt_executes_again_with_a_higher_fence() {
    let (api, first, finish) = abandoned(OnAbandoned::Reexecute).await;
    assert_eq!(api.handler.last().header("idempotency-fence"), Some("1"));
    let second = api.send(charge("k", "100")).await;
    assert_eq!((second.status, second.text()), (201, "run 2"));
    assert!(!second.is_replayed());
    assert_eq!(api.handler.last().header("idempotency-fence"), Some("2"));

    // I4: the late holder answers with the recorded outcome, not its own.
    finish();
    first.await.unwrap().assert_replays(&second);
    api.send(charge("k", "100")).await.assert_replays(&second);
    assert_eq!(api.handler.runs(), 2);
}

#[tokio::test]
async fn the_record_is_settled_as_failed_and_replayed_from_then_on() {
    let (api, first, finish) = abandoned(OnAbandoned::Fail).await;
    for _ in 0..2 {
        let reply = api.send(charge("k", "100")).await;
        reply.assert_problem(500, "execution_abandoned", false);
        reply.assert_retry_after(false);
        assert!(reply.is_replayed());
        assert_eq!(reply.header("x-idempotency-expires"), Some("Fri, 02 Jan 2026 00:00:00 GMT"));
    }
    assert_eq!(api.state().await, Some(State::Settled(Settlement::Abandoned)));

    finish();
    first.await.unwrap().assert_problem(500, "execution_abandoned", false);
    assert_eq!(api.handler.runs(), 1);
}

#[tokio::test]
async fn the_record_is_held_until_its_holder_returns() {
    let (api, first, finish) = abandoned(OnAbandoned::Hold).await;
    for _ in 0..2 {
        let reply = api.send(charge("k", "100")).await;
        reply.assert_problem(409, "outcome_unknown", true);
        reply.assert_retry_after(false);
        assert!(!reply.is_replayed());
    }
    finish();
    let first = first.await.unwrap();
    assert_eq!((first.status, first.text()), (201, "run 1"));
    api.send(charge("k", "100")).await.assert_replays(&first);
    assert_eq!(api.handler.runs(), 1);
}

/// The late holder knows how its own execution ended, but not how the one that counts did: it must
/// not answer with an outcome that the record does not have (I4).
#[tokio::test]
async fn a_late_holder_does_not_claim_its_own_outcome_when_its_successor_holds() {
    let (handler, gate) = Handler::replying(|seen| {
        let mut response = Response::new(format!("run {}", seen.run).into());
        if seen.run == 2 {
            response.extensions_mut().insert(OutcomeKind::Unknown);
        }
        response
    })
    .gated();
    let api = Api::new(policy().on_unknown(OnUnknown::Hold), handler);
    let first = api.spawn(charge("k", "100"));
    api.handler.started(1).await;
    api.clock.advance(LEASE);
    let other = api.beside(policy().on_unknown(OnUnknown::Hold), api.handler.clone());
    assert_eq!(other.send(charge("k", "100")).await.text(), "run 2");
    assert_eq!(api.state().await, Some(State::Held));

    gate.open();
    first.await.unwrap().assert_problem(409, "outcome_unknown", true);
    assert_eq!(api.state().await, Some(State::Held));
}

#[tokio::test]
async fn an_expired_record_does_not_answer() {
    let api = Api::new(policy(), Handler::counting());
    assert_eq!(api.send(charge("k", "100")).await.text(), "run 1");
    api.clock.advance(std::time::Duration::from_hours(24));
    let later = api.send(charge("k", "200")).await;
    assert_eq!((later.status, later.text(), later.is_replayed()), (201, "run 2", false));
    assert_eq!(later.header("x-idempotency-expires"), Some("Sat, 03 Jan 2026 00:00:00 GMT"));
}
