//! The store is away, damaged, or lost in the middle of an execution.

use semel_core::{OnStoreDown, OnUnknown, Outcome, Reply, State};
use semel_http::Preset;

use crate::support::{Api, Counts, Fault, Handler, Verb, charge, policy};

#[tokio::test]
async fn a_closed_route_executes_nothing_without_its_store() {
    let api = Api::new(policy(), Handler::counting());
    api.store.fail_all(Fault::Unavailable);
    let reply = api.send(charge("k", "100")).await;
    reply.assert_problem(503, "idempotency_store_unavailable", true);
    reply.assert_retry_after(true);
    assert_eq!(reply.header("connection"), None, "the body was read");
    assert_eq!(api.handler.runs(), 0);

    api.store.mend();
    assert_eq!(api.send(charge("k", "100")).await.status, 201);
}

#[tokio::test]
async fn an_open_route_executes_without_its_store_and_says_so() {
    for policy in
        [policy().on_store_down(OnStoreDown::Open), policy().preset(Preset::Notifications)]
    {
        let counts = Counts::default();
        let api = Api::with_routes(counts.routes(policy), Handler::counting());
        api.store.fail_all(Fault::Unavailable);
        for run in 1..=2 {
            let reply = api.send(charge("k", "100")).await;
            assert_eq!((reply.status, reply.text()), (201, &*format!("run {run}")));
            assert_eq!(reply.header("x-idempotency-bypassed"), Some("true"));
            assert_eq!(reply.header("x-idempotency-expires"), None);
            assert!(!reply.is_replayed());
            assert_eq!(api.handler.last().header("idempotency-fence"), None);
            assert_eq!(api.handler.last().header("idempotency-key"), Some("k"));
        }
        assert_eq!(counts.of("bypassed"), 2);

        api.store.mend();
        let protected = api.send(charge("k", "100")).await;
        assert_eq!(protected.header("x-idempotency-bypassed"), None);
        api.send(charge("k", "100")).await.assert_replays(&protected);
    }
}

/// A damaged store is not one that is away: the record that cannot be read may be settled.
#[tokio::test]
async fn an_open_route_does_not_execute_over_a_damaged_store() {
    let api = Api::new(policy().on_store_down(OnStoreDown::Open), Handler::counting());
    api.store.fail_all(Fault::Corrupt);
    let reply = api.send(charge("k", "100")).await;
    reply.assert_problem(503, "idempotency_store_unavailable", true);
    assert_eq!(api.handler.runs(), 0);
}

/// The work was done, whatever became of its reply.
#[tokio::test]
async fn work_whose_stored_reply_cannot_be_read_is_not_executed_again() {
    let api = Api::new(policy(), Handler::answering(503));
    assert_eq!(api.send(charge("k", "100")).await.status, 503);
    let (id, record) = (api.store.last_claimed().unwrap(), api.record().await.unwrap());
    let attempt = api.engine.attempt(id, record.fingerprint);
    let unreadable = |_| async { Outcome::Completed(Reply::new("unreadable")) };
    let core = &semel_http::RoutePolicy::default().core;
    api.engine.once(attempt, core, unreadable).await.unwrap();

    let reply = api.send(charge("k", "100")).await;
    reply.assert_problem(500, "stored_reply_unreadable", true);
    assert!(!reply.is_replayed());
    assert_eq!(api.handler.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_could_not_be_stored_says_so_and_is_settled_in_the_background() {
    let api = Api::new(policy(), Handler::counting());
    api.store.fail([Verb::Settle, Verb::Renew], Fault::Unavailable);
    let first = api.send(charge("k", "100")).await;
    assert_eq!((first.status, first.text()), (201, "run 1"));
    assert_eq!(first.header("x-idempotency-stored"), Some("false"));
    assert_eq!(first.header("x-idempotency-expires"), Some("Fri, 02 Jan 2026 00:00:00 GMT"));

    // Never is the claim dropped: a retry is in flight, not executed.
    let early = api.send(charge("k", "100")).await;
    early.assert_problem(409, "request_in_progress", true);

    api.store.mend();
    api.idle().await;
    let retry = api.send(charge("k", "100")).await;
    retry.assert_replays(&first);
    assert_eq!(retry.header("x-idempotency-stored"), None);
    assert_eq!(api.handler.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn work_that_failed_for_now_is_released_once_the_store_returns() {
    let api = Api::new(policy(), Handler::answering(503));
    api.store.fail([Verb::Release], Fault::Unavailable);
    let first = api.send(charge("k", "100")).await;
    assert_eq!((first.status, first.text()), (503, "run 1"));
    assert!(matches!(api.state().await, Some(State::Leased { .. })));
    api.store.mend();
    api.idle().await;
    assert_eq!(api.state().await, Some(State::Released));
}

#[tokio::test]
async fn an_outcome_without_a_record_promises_no_replay() {
    let (handler, gate) = Handler::counting().gated();
    let api = Api::new(policy().on_unknown(OnUnknown::Hold), handler);
    let first = api.spawn(charge("k", "100"));
    api.handler.started(1).await;
    api.clock.advance(std::time::Duration::from_hours(25));
    gate.open();
    let first = first.await.unwrap();
    assert_eq!((first.status, first.text()), (201, "run 1"));
    assert_eq!(first.header("x-idempotency-stored"), Some("false"));
    assert_eq!(first.header("x-idempotency-expires"), None);
}
