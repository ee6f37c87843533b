//! The fence of an execution, and the outcomes of failing handlers.

use http::{Response, StatusCode};
use semel_core::{OnUnknown, State};

use crate::support::{Api, Counts, Handler, HandlerError, With, charge, keyless, policy};

#[tokio::test]
async fn a_handler_sees_the_request_with_its_key_and_its_fence() {
    let api = Api::new(policy(), Handler::counting());
    let request = charge("\"order-1\"", "100").with("x-trace", "7");
    assert_eq!(api.send(request).await.status, 201);
    let seen = api.handler.last();
    assert_eq!(
        (seen.method.as_str(), seen.uri.path(), &seen.body[..]),
        ("POST", "/charges", &b"100"[..])
    );
    assert_eq!(seen.header("idempotency-key"), Some("\"order-1\""));
    assert_eq!(seen.header("idempotency-fence"), Some("1"));
    assert_eq!(seen.header("x-trace"), Some("7"));
}

#[tokio::test]
async fn a_fence_that_a_client_made_up_is_dropped() {
    let api = Api::new(policy(), Handler::counting());
    let forged = |request: http::Request<_>| {
        request.with("idempotency-fence", "99").with("idempotency-fence", "98")
    };
    api.send(forged(charge("k", "100"))).await;
    let fences = api.handler.last().headers;
    assert_eq!(fences.get_all("idempotency-fence").iter().collect::<Vec<_>>(), ["1"]);
    for method in ["PUT", "GET"] {
        api.send(forged(keyless(method, "/charges", "100"))).await;
        assert_eq!(api.handler.last().header("idempotency-fence"), None, "{method}");
    }
    assert_eq!(api.handler.runs(), 3);
}

#[tokio::test]
async fn an_error_of_the_service_goes_to_the_caller_and_the_key_is_free_again() {
    let handler = Handler::new(|seen| {
        if seen.run == 1 { Err(HandlerError) } else { Ok(Response::new("ok".into())) }
    });
    let api = Api::new(policy(), handler);
    assert_eq!(api.try_send(charge("k", "100")).await.unwrap_err(), HandlerError);
    assert_eq!(api.state().await, Some(State::Released));
    assert_eq!(api.send(charge("k", "100")).await.text(), "ok");
    assert_eq!(api.handler.last().header("idempotency-fence"), Some("2"));
}

#[tokio::test]
async fn an_error_of_the_service_holds_the_key_where_the_route_says_so() {
    let api = Api::new(policy().on_unknown(OnUnknown::Hold), Handler::new(|_| Err(HandlerError)));
    assert_eq!(api.try_send(charge("k", "100")).await.unwrap_err(), HandlerError);
    assert_eq!(api.state().await, Some(State::Held));
    api.send(charge("k", "100")).await.assert_problem(409, "outcome_unknown", true);
    assert_eq!(api.handler.runs(), 1);
}

#[tokio::test]
async fn a_panicking_handler_is_execution_interrupted_and_its_outcome_unknown() {
    let handler = Handler::new(|seen| {
        assert!(seen.run > 1, "on purpose");
        Ok(Response::new("ok".into()))
    });
    let counts = Counts::default();
    let api = Api::with_routes(counts.routes(policy()), handler);
    let reply = api.send(charge("k", "100")).await;
    assert_eq!(counts.unknown_released(), 1);
    reply.assert_problem(500, "execution_interrupted", true);
    assert_eq!(reply.header("x-idempotency-expires"), None);
    assert_eq!(api.state().await, Some(State::Released));
    let retry = api.send(charge("k", "100")).await;
    assert_eq!((retry.status, retry.text()), (200, "ok"));
    assert_eq!(counts.unknown_released(), 1);
}

#[tokio::test]
async fn a_handler_that_panics_holds_the_key_where_the_route_says_so() {
    let handler = Handler::new(|_| panic!("on purpose"));
    let api = Api::new(policy().on_unknown(OnUnknown::Hold), handler);
    for _ in 0..2 {
        api.send(charge("k", "100")).await.assert_problem(409, "outcome_unknown", true);
    }
    assert_eq!((api.state().await, api.handler.runs()), (Some(State::Held), 1));
}

/// Trap 7: what the layer itself says to a duplicate is never recorded as the outcome.
#[tokio::test]
async fn refusals_of_duplicates_are_not_recorded() {
    let (handler, gate) = Handler::counting().gated();
    let api = Api::new(policy(), handler);
    let first = api.spawn(charge("k", "100"));
    api.handler.started(1).await;
    for body in ["100", "200"] {
        assert_eq!(api.send(charge("k", body)).await.status, StatusCode::CONFLICT.as_u16());
    }
    gate.open();
    let first = first.await.unwrap();
    assert_eq!(first.status, 201);
    api.send(charge("k", "100")).await.assert_replays(&first);
}
