//! I8, trap 9: another request under the same key neither executes nor learns anything, in every
//! state of the record.

use http::Request;
use semel_core::{InFlight, OnAbandoned, OnUnknown, State};
use semel_http::OutcomeKind;

use crate::support::{Api, Handler, LEASE, TestBody, With, charge, keyless, policy};

/// Sends other requests under the key, which must leave everything as it is.
async fn assert_inert(api: &Api) {
    let (before, runs) = (api.record().await.unwrap(), api.handler.runs());
    for body in ["200", ""] {
        let reply = api.send(charge("k", body)).await;
        reply.assert_problem(409, "idempotency_payload_mismatch", false);
        reply.assert_retry_after(false);
        assert!(!reply.is_replayed() && reply.header("x-idempotency-expires").is_none());
        assert!(!reply.text().contains("run"), "{}", reply.text());
    }
    assert_eq!(api.record().await.unwrap(), before);
    assert_eq!(api.handler.runs(), runs);
}

#[tokio::test]
async fn a_mismatch_is_inert_while_the_first_is_in_flight() {
    let wait = InFlight::Wait(std::time::Duration::from_mins(5));
    for in_flight in [InFlight::Conflict, InFlight::Accepted, wait] {
        let (handler, gate) = Handler::counting().gated();
        let api = Api::new(policy().in_flight(in_flight), handler);
        let first = api.spawn(charge("k", "100"));
        api.handler.started(1).await;
        assert_inert(&api).await;
        gate.open();
        let first = first.await.unwrap();
        assert_eq!(first.status, 201);
        api.send(charge("k", "100")).await.assert_replays(&first);
    }
}

#[tokio::test]
async fn a_mismatch_is_inert_after_settlement() {
    let api = Api::new(policy(), Handler::counting());
    let first = api.send(charge("k", "100")).await;
    assert_inert(&api).await;
    api.send(charge("k", "100")).await.assert_replays(&first);
}

#[tokio::test]
async fn a_mismatch_is_inert_after_a_release() {
    let api = Api::new(policy(), Handler::answering(503));
    assert_eq!(api.send(charge("k", "100")).await.status, 503);
    assert_eq!(api.state().await, Some(State::Released));
    assert_inert(&api).await;
    assert_eq!(api.send(charge("k", "100")).await.text(), "run 2");
}

#[tokio::test]
async fn a_mismatch_is_inert_while_the_record_is_held_or_abandoned() {
    let handler = Handler::replying(|_| {
        http::Response::builder().extension(OutcomeKind::Unknown).body("run".into()).unwrap()
    });
    let held = Api::new(policy().on_unknown(OnUnknown::Hold), handler);
    held.send(charge("k", "100")).await;
    assert_eq!(held.state().await, Some(State::Held));
    assert_inert(&held).await;

    for on_abandoned in [OnAbandoned::Reexecute, OnAbandoned::Fail, OnAbandoned::Hold] {
        let (handler, _gate) = Handler::counting().gated();
        let api = Api::new(policy().on_abandoned(on_abandoned), handler);
        let first = api.spawn(charge("k", "100"));
        api.handler.started(1).await;
        api.clock.advance(LEASE);
        assert_inert(&api).await;
        first.abort();
    }
}

fn json(body: &'static str) -> Request<TestBody> {
    charge("k", body).with("content-type", "application/json")
}

#[tokio::test]
async fn every_part_of_the_request_counts() {
    let path = |path| keyless("POST", path, "100").with("idempotency-key", "k");
    let mut routes = semel_http::Routes::default();
    routes.add("POST /accounts/{id}", policy().build().unwrap()).unwrap();
    let api = Api::with_routes(routes, Handler::counting());
    assert_eq!(api.send(path("/accounts/1?a=1")).await.status, 201);
    for other in ["/accounts/2?a=1", "/accounts/1", "/accounts/1?a=2", "/accounts/1?"] {
        let reply = api.send(path(other)).await;
        reply.assert_problem(409, "idempotency_payload_mismatch", false);
    }
    let other_type = path("/accounts/1?a=1").with("content-type", "text/plain");
    assert_eq!(api.send(other_type).await.status, 409);
    assert_eq!(api.handler.runs(), 1);
}

/// Many servers take a path with an empty segment, or a slash at its end, for the one without. To them a
/// retry must be no second execution, and to others it must be no replay. Escapes and dots are spelling.
#[tokio::test]
async fn another_path_that_may_be_the_same_neither_executes_nor_replays() {
    for pattern in ["POST /accounts/{id}", "POST /other"] {
        let mut routes = semel_http::Routes::default();
        routes.add(pattern, policy().build().unwrap()).unwrap();
        let api = Api::with_routes(routes, Handler::counting());
        let send = |path| api.send(keyless("POST", path, "100").with("idempotency-key", "k"));
        let first = send("/accounts/1").await;
        for other in ["//accounts/1", "/accounts/1/"] {
            let reply = send(other).await;
            reply.assert_problem(409, "idempotency_payload_mismatch", false);
        }
        for same in ["/accounts/./1", "/x/../accounts/1", "/accounts/%31", "/accounts/1"] {
            send(same).await.assert_replays(&first);
        }
        assert_eq!(api.handler.runs(), 1);
    }
}

#[tokio::test]
async fn json_is_compared_by_value_and_digits_are_never_lost() {
    let ignore = vec![semel_http::json::Pointer::parse("/at").unwrap()];
    let api = Api::new(policy().fingerprint_ignore(ignore), Handler::counting());
    let first = api.send(json(r#"{"a":9007199254740993,"b":[1,2],"at":1}"#)).await;
    for same in [
        r#"{"b":[1,2],"at":2,"a":9007199254740993}"#,
        "{ \"a\": 9007199254740993,\n \"b\": [1, 2] }",
    ] {
        api.send(json(same)).await.assert_replays(&first);
    }
    for other in [
        r#"{"a":9007199254740992,"b":[1,2]}"#,
        r#"{"a":9007199254740993,"b":[2,1]}"#,
        r#"{"a":9007199254740993,"b":[1,2],"a":9007199254740993}"#,
        r#"{"a":"9007199254740993","b":[1,2]}"#,
    ] {
        assert_eq!(api.send(json(other)).await.status, 409, "{other}");
    }
    assert_eq!(api.handler.runs(), 1);
}
