//! Requests that get as far as no execution: the rows of the contract's table.

use semel_engine::Limits;
use semel_http::problem::Code;
use semel_http::{OnMissingScope, Preset, Profile, Routes};
use std::time::Duration;
use tower::ServiceExt as _;

use crate::support::{Api, Counts, Handler, TestBody, Verb, With, charge, keyless, policy};

#[tokio::test]
async fn a_post_or_patch_without_a_key_is_refused() {
    let api = Api::new(policy(), Handler::counting());
    for method in ["POST", "PATCH"] {
        let reply = api.send(keyless(method, "/charges", "100")).await;
        reply.assert_problem(400, "idempotency_key_missing", false);
        reply.assert_retry_after(false);
    }
    assert_eq!((api.handler.runs(), api.store.calls(Verb::Claim)), (0, 0));
}

#[tokio::test]
async fn a_malformed_key_is_refused() {
    let api = Api::new(policy(), Handler::counting());
    for key in ["", "\"", "\"\"", "two words", "\"a\" b", "\u{e9}"] {
        let reply = api.send(charge(key, "100")).await;
        reply.assert_problem(400, "idempotency_key_invalid", false);
        reply.assert_retry_after(false);
    }
    assert_eq!((api.handler.runs(), api.store.calls(Verb::Claim)), (0, 0));
}

#[tokio::test]
async fn a_request_without_identity_is_refused_where_one_is_asked_for() {
    for policy in
        [policy().on_missing_scope(OnMissingScope::Reject), policy().preset(Preset::Payments)]
    {
        let api = Api::new(policy, Handler::counting());
        let reply = api.send(charge("k", "100")).await;
        reply.assert_problem(401, "idempotency_scope_missing", false);
        reply.assert_retry_after(false);
        assert_eq!((api.handler.runs(), api.store.calls(Verb::Claim)), (0, 0));

        let known = api.send(charge("k", "100").with("authorization", "Bearer ann")).await;
        assert_eq!(known.status, 201);
    }
}

#[tokio::test]
async fn a_mismatch_has_the_status_of_its_profile_and_no_retry_after() {
    for (profile, status) in [(Profile::Classic, 409), (Profile::Ietf, 422), (Profile::Stripe, 400)]
    {
        let api = Api::new(policy().profile(profile), Handler::counting());
        assert_eq!(api.send(charge("k", "100")).await.status, 201);
        let reply = api.send(charge("k", "200")).await;
        reply.assert_problem(status, "idempotency_payload_mismatch", false);
        reply.assert_retry_after(false);
        assert_eq!(api.handler.runs(), 1, "{profile}");
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused() {
    let api = Api::new(policy().max_request_body(3), Handler::counting());
    let reply = api.send(charge("k", "1000")).await;
    reply.assert_problem(413, "request_body_too_large", false);
    reply.assert_retry_after(false);
    assert_eq!((api.handler.runs(), api.store.calls(Verb::Claim)), (0, 0));
    assert_eq!(api.send(charge("k", "100")).await.status, 201);
}

#[tokio::test]
async fn a_server_that_goes_down_refuses_and_closes() {
    let api = Api::new(policy(), Handler::counting());
    assert_eq!(api.engine.shutdown(Duration::ZERO).await.left, 0);
    let reply = api.send(charge("k", "100")).await;
    reply.assert_problem(503, "shutting_down", true);
    reply.assert_retry_after(true);
    assert_eq!(reply.header("connection"), Some("close"));
    assert_eq!((api.handler.runs(), api.store.calls(Verb::Claim)), (0, 0));
}

#[tokio::test]
async fn more_executions_than_the_engine_allows_are_refused() {
    let (handler, gate) = Handler::counting().gated();
    let limits = Limits { executions_max: 1, ..Limits::default() };
    let api = Api::with_limits(Routes::default(), handler, limits);
    let first = api.spawn(charge("first", "100"));
    api.handler.started(1).await;
    let reply = api.send(charge("second", "100")).await;
    reply.assert_problem(503, "too_busy", true);
    reply.assert_retry_after(true);
    gate.open();
    assert_eq!(first.await.unwrap().status, 201);
    assert_eq!(api.send(charge("second", "100")).await.status, 201);
}

#[tokio::test]
async fn a_problem_is_not_cached_and_carries_its_code_for_other_layers() {
    let api = Api::new(policy(), Handler::counting());
    let response = api.service.clone().oneshot(keyless("POST", "/charges", "100")).await.unwrap();
    assert_eq!(response.extensions().get::<Code>(), Some(&Code::KeyMissing));
    assert_eq!(response.headers()["cache-control"], "no-store");
}

#[tokio::test]
async fn every_decision_is_counted_once() {
    let counts = Counts::default();
    let routes = counts.routes(policy().max_request_body(10));
    let api = Api::with_routes(routes, Handler::counting());
    api.send(keyless("POST", "/charges", "100")).await;
    api.send(charge("two words", "100")).await;
    api.send(charge("k", TestBody::pieces(2, 10))).await;
    api.send(charge("k", "100")).await;
    api.send(charge("k", "100")).await;
    api.send(charge("k", "200")).await;
    let expected = [
        ("body_too_large", 1),
        ("executed", 1),
        ("key_invalid", 1),
        ("key_missing", 1),
        ("mismatch", 1),
        ("replayed", 1),
    ];
    assert_eq!(counts.all(), expected.map(|(name, count)| (name.to_owned(), count)));
}
