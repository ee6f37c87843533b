//! Requests that are not executed, and a database that fails.

use semel_core::{Outcome, Reply, Settlement};
use semel_engine::{Answer, EngineError, Stored};
use semel_http::problem::Code;
use semel_http::{IdempotentLayer, OnMissingScope, PartSource, Routes};
use semel_store::StoreError;
use std::time::Duration;
use tower::ServiceExt as _;

use super::{Api, EXPIRES, away, run};
use crate::support::{
    BodyError, Counts, Logs, Reply as Response, Step, TestBody, With, charge, keyless, policy,
};

#[tokio::test]
async fn a_request_without_a_good_key_or_an_identity_is_refused() {
    let api = Api::counting(policy().on_missing_scope(OnMissingScope::Reject));
    for (request, status, code) in [
        (keyless("POST", "/charges", "100"), 400, "idempotency_key_missing"),
        (keyless("PATCH", "/charges", "100"), 400, "idempotency_key_missing"),
        (charge("two words", "100"), 400, "idempotency_key_invalid"),
        (charge("k", "").with("idempotency-key", "k"), 400, "idempotency_key_invalid"),
        (charge("k", "100"), 401, "idempotency_scope_missing"),
    ] {
        let reply = api.send(request).await;
        reply.assert_problem(status, code, false);
        assert_eq!(reply.header("www-authenticate").is_some(), status == 401);
    }
    assert_eq!(api.runs(), 0);
    let known = api.send(charge("k", "100").with("authorization", "Bearer ann")).await;
    assert_eq!(known.status, 201);
}

#[tokio::test]
async fn a_body_that_is_too_large_or_breaks_off_is_refused() {
    let api = Api::counting(policy().max_request_body(3));
    let reply = api.send(charge("k", "1000")).await;
    reply.assert_problem(413, "request_body_too_large", false);
    let broken = TestBody::of([Step::data("1"), Step::Fail(BodyError::Gone)]);
    let reply = api.send(charge("k", broken)).await;
    reply.assert_problem(400, "request_body_broken", true);
    assert_eq!(api.runs(), 0);
    assert_eq!(api.send(charge("k", "100")).await.status, 201);
}

/// What is held of requests and replays has a limit, and a handler's own response is given all the
/// same: it would be wrong to say that nothing was executed.
#[tokio::test]
async fn requests_and_replays_without_room_are_refused_but_no_own_response() {
    let large = |_| http::Response::new(vec![b'x'; 5_000].into());
    let layer = IdempotentLayer::new(Routes::default()).max_buffered(4_000);
    let api = Api::with_layer(layer, large);
    api.send(charge("k", vec![b'x'; 4_001])).await.assert_problem(503, "too_busy", true);
    assert_eq!(api.runs(), 0);
    let first = api.send(charge("k", "100")).await;
    assert_eq!((first.status, first.body.len()), (200, 5_000));
    api.send(charge("k", "100")).await.assert_problem(503, "too_busy", true);
}

#[tokio::test]
async fn a_key_in_the_body_is_found_and_handed_on_in_the_usual_place() {
    let key_from: Vec<PartSource> = vec!["json:/key".parse().unwrap()];
    let api = Api::counting(policy().key_from(key_from));
    let body = r#"{"key":"k"}"#;
    let first = api.send(keyless("POST", "/charges", body)).await;
    assert_eq!(first.status, 201);
    api.last(|seen| assert_eq!(seen.headers["idempotency-key"], "k"));
    api.send(keyless("POST", "/charges", body)).await.assert_replays(&first);
    let missing = api.send(keyless("POST", "/charges", "{}")).await;
    missing.assert_problem(400, "idempotency_key_missing", false);
}

#[tokio::test]
async fn namespaces_are_kept_apart() {
    let id = |layer: IdempotentLayer| async {
        let api = Api::with_layer(layer, run);
        api.send(charge("k", "100")).await;
        api.last(|seen| seen.attempt.as_ref().unwrap().id())
    };
    let layer = || IdempotentLayer::new(Routes::default());
    assert_eq!(id(layer()).await, id(layer().namespace("http")).await);
    assert_ne!(id(layer()).await, id(layer().namespace("shop")).await);
}

#[tokio::test]
async fn without_its_database_nothing_is_executed() {
    let logs = Logs::of_this_thread();
    let counts = Counts::default();
    let api = Api::with_layer(IdempotentLayer::new(counts.routes(policy())), run);
    api.fail(away);
    let reply = api.send(charge("k", "100")).await;
    reply.assert_problem(503, "idempotency_store_unavailable", true);
    reply.assert_retry_after(true);
    assert!(reply.text().contains("nothing was executed"));
    assert_eq!(reply.header("connection"), None, "the body was read");
    assert_eq!(counts.all(), [("store_unavailable".to_owned(), 1)]);
    assert!(logs.text().contains("no connection"), "{}", logs.text());
}

/// It is unknown whether the transaction was committed: "nothing was executed" may not be true.
#[tokio::test]
async fn a_commit_without_an_answer_is_not_called_nothing() {
    let faults: [fn() -> EngineError; 2] = [
        || StoreError::deadline("commit", Duration::from_secs(3)).into(),
        || EngineError::Interrupted,
    ];
    for fault in faults {
        let counts = Counts::default();
        let api = Api::with_layer(IdempotentLayer::new(counts.routes(policy())), run);
        api.fail(fault);
        let reply = api.send(charge("k", "100")).await;
        reply.assert_problem(500, "execution_interrupted", true);
        reply.assert_retry_after(true);
        assert!(!reply.text().contains("nothing was executed"), "{}", reply.text());
        assert_eq!(counts.all(), [("unknown".to_owned(), 1)]);
    }
}

#[tokio::test]
async fn a_server_that_goes_down_refuses_and_closes() {
    let api = Api::counting(policy());
    api.fail(|| EngineError::ShuttingDown);
    let reply = api.send(charge("k", "100")).await;
    reply.assert_problem(503, "shutting_down", true);
    assert_eq!(reply.header("connection"), Some("close"));
}

#[tokio::test]
async fn a_problem_carries_its_code_for_other_layers() {
    let api = Api::counting(policy());
    let response = api.service.clone().oneshot(keyless("POST", "/charges", "100")).await.unwrap();
    assert_eq!(response.extensions().get::<Code>(), Some(&Code::KeyMissing));
}

/// A handler may settle what is no response of this attempt.
#[tokio::test]
async fn an_outcome_that_was_made_elsewhere_is_answered_from_its_reply() {
    let api = Api::counting(policy());
    api.send(charge("k", "100")).await;
    let attempt = api.last(|seen| seen.attempt.clone()).unwrap();
    let executed = |reply| Answer::Executed {
        settlement: Settlement::Completed(reply),
        expires: EXPIRES,
        fence: semel_core::Fence::FIRST,
        stored: Stored::Durable,
    };
    let respond = |reply| async { Response::of(attempt.respond(executed(reply))).await };

    let Outcome::Completed(reply) = attempt.outcome(http::Response::new("first")) else {
        panic!("not completed")
    };
    // The latest response is not the one that counts.
    attempt.outcome(http::Response::new("second"));
    let first = respond(reply).await;
    assert_eq!((first.text(), first.is_replayed()), ("first", false));
    assert!(first.header("x-idempotency-expires").is_some());
    respond(Reply::new("no reply")).await.assert_problem(500, "stored_reply_unreadable", true);
    respond(Reply::default()).await.assert_problem(500, "execution_interrupted", true);
}

#[tokio::test]
async fn every_decision_is_counted_once_and_logged_without_secrets() {
    let logs = Logs::of_this_thread();
    let counts = Counts::default();
    let routes = counts.routes(policy().max_request_body(20));
    let api = Api::with_layer(IdempotentLayer::new(routes), |run| {
        let status = if run == 3 { 503 } else { 201 };
        http::Response::builder().status(status).body("5ecret".into()).unwrap()
    });
    let secret = |key, body: &'static str| charge(key, body).with("authorization", "5ecret");
    api.send(keyless("POST", "/charges", "5ecret")).await;
    api.send(secret("5ecret key", "5ecret")).await;
    api.send(secret("5ecret", "more than twenty 5ecrets")).await;
    for body in ["5ecret", "5ecret", "other 5ecret"] {
        api.send(secret("5ecret", body)).await;
    }
    api.charges.seen.lock().unwrap().truncate(2);
    assert_eq!(api.send(secret("5ecret-2", "5ecret")).await.status, 503);
    let first = api.send_and_hold(secret("5ecret-3", "5ecret")).await;
    api.send(secret("5ecret-3", "5ecret")).await;
    api.let_commit();
    first.await.unwrap();
    let expected = [
        ("body_too_large", 1),
        ("executed", 2),
        ("in_flight", 1),
        ("key_invalid", 1),
        ("key_missing", 1),
        ("mismatch", 1),
        ("released", 1),
        ("replayed", 1),
    ];
    assert_eq!(counts.all(), expected.map(|(name, count)| (name.to_owned(), count)));
    let said = logs.text();
    assert_eq!(said.lines().filter(|line| line.contains("message=attempt")).count(), 9);
    let attempt = api.last(|seen| format!("{:?}", seen.attempt.as_ref().unwrap()));
    assert!(!said.contains("5ecret") && !attempt.contains("5ecret"), "{said}{attempt}");
}
