//! Where keys come from, and which of them are the same.

use semel_core::KeyFormat;
use semel_http::{KeyRule, OnMissingScope, PartSource, Profile};

use crate::support::{Api, Handler, TestBody, With, charge, keyless, policy};

const UUID: &str = "9B2E6C1C-3E0B-4F0E-9A55-0C5B8C3F1A11";

fn sources(names: &[&str]) -> Vec<PartSource> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

fn json(body: &'static str) -> http::Request<TestBody> {
    keyless("POST", "/charges", body).with("content-type", "application/json")
}

#[tokio::test]
async fn the_bare_and_the_quoted_form_are_one_key() {
    let api = Api::new(policy(), Handler::counting());
    let first = api.send(charge("order-1", "100")).await;
    for same in ["\"order-1\"", "  order-1 ", "order-1"] {
        api.send(charge(same, "100")).await.assert_replays(&first);
    }
    assert_eq!(api.handler.runs(), 1);
}

#[tokio::test]
async fn only_uuids_are_compared_without_regard_to_case() {
    let api = Api::new(policy(), Handler::counting());
    let first = api.send(charge(UUID, "100")).await;
    api.send(charge(&UUID.to_lowercase(), "100")).await.assert_replays(&first);
    assert_eq!(api.send(charge("Order-1", "100")).await.text(), "run 2");
    assert_eq!(api.send(charge("order-1", "100")).await.text(), "run 3");
}

#[tokio::test]
async fn a_key_that_comes_twice_is_refused_even_if_both_are_equal() {
    let api = Api::new(policy(), Handler::counting());
    for second in ["k", "other"] {
        let reply = api.send(charge("k", "100").with("idempotency-key", second)).await;
        reply.assert_problem(400, "idempotency_key_invalid", false);
    }
    let put = keyless("PUT", "/a", "").with("idempotency-key", "a").with("idempotency-key", "b");
    assert_eq!(api.send(put).await.status, 400);
    assert_eq!(api.handler.runs(), 0);
}

#[tokio::test]
async fn the_longest_key_depends_on_the_profile() {
    for (profile, max) in [(Profile::Classic, 128), (Profile::Ietf, 128), (Profile::Stripe, 255)] {
        let api = Api::new(policy().profile(profile), Handler::counting());
        assert_eq!(api.send(charge(&"k".repeat(max), "100")).await.status, 201);
        let reply = api.send(charge(&"k".repeat(max + 1), "100")).await;
        reply.assert_problem(400, "idempotency_key_invalid", false);
        assert!(reply.text().contains(&max.to_string()), "{}", reply.text());
        assert_eq!(api.handler.runs(), 1);
    }
}

#[tokio::test]
async fn a_route_can_demand_a_uuid() {
    let api = Api::new(policy().key_format(KeyFormat::Uuid), Handler::counting());
    let reply = api.send(charge("order-1", "100")).await;
    reply.assert_problem(400, "idempotency_key_invalid", false);
    assert_eq!(api.send(charge(UUID, "100")).await.status, 201);
}

#[tokio::test]
async fn a_key_can_come_in_another_header() {
    let names = ["header:idempotency-key", "header:paypal-request-id"];
    let api = Api::new(policy().key_from(sources(&names)), Handler::counting());
    let paypal = || keyless("POST", "/charges", "100").with("paypal-request-id", "order-1");
    let first = api.send(paypal()).await;
    assert_eq!(first.status, 201);
    // The handler finds it in the usual place.
    assert_eq!(api.handler.last().header("idempotency-key"), Some("order-1"));
    api.send(paypal()).await.assert_replays(&first);
    api.send(charge("order-1", "100")).await.assert_replays(&first);
    // The first source counts.
    let both = charge("order-2", "100").with("paypal-request-id", "order-1");
    assert_eq!(api.send(both).await.text(), "run 2");
    assert_eq!(api.handler.last().header("idempotency-key"), Some("order-2"));
}

#[tokio::test]
async fn a_key_can_come_in_a_json_body() {
    let names = ["header:idempotency-key", "json:/meta/key"];
    let api = Api::new(policy().key_from(sources(&names)), Handler::counting());
    let body = r#"{"amount":100,"meta":{"key":"order-1"}}"#;
    let first = api.send(json(body)).await;
    assert_eq!(first.status, 201);
    let seen = api.handler.last();
    assert_eq!(
        (seen.header("idempotency-key"), &seen.body[..]),
        (Some("order-1"), body.as_bytes())
    );
    let same = r#"{ "meta": {"key": "order-1"}, "amount": 100 }"#;
    api.send(json(same)).await.assert_replays(&first);
    assert_eq!(api.send(json(r#"{"meta":{"key":17}}"#)).await.text(), "run 2");
    assert_eq!(api.handler.last().header("idempotency-key"), Some("17"));

    for body in [r#"{"amount":100}"#, ""] {
        let reply = api.send(json(body)).await;
        reply.assert_problem(400, "idempotency_key_missing", false);
        assert_eq!(reply.header("connection"), None, "the body was read");
    }
    for body in [r#"{"meta":{"key":true}}"#, r#"{"meta":{"key":""}}"#, "no json"] {
        api.send(json(body)).await.assert_problem(400, "idempotency_key_invalid", false);
    }
    assert_eq!(api.handler.runs(), 2);
}

#[tokio::test]
async fn a_put_whose_body_has_no_key_passes_whole() {
    let api = Api::new(policy().key_from(sources(&["json:/key"])), Handler::counting());
    for run in 1..=2 {
        let reply = api.send(keyless("PUT", "/charges/1", r#"{"amount":100}"#)).await;
        assert_eq!(reply.text(), format!("run {run}"));
    }
    assert_eq!(api.handler.last().body, r#"{"amount":100}"#);
    let keyed = || keyless("PUT", "/charges/1", r#"{"key":"order-1"}"#);
    let first = api.send(keyed()).await;
    api.send(keyed()).await.assert_replays(&first);
}

/// Neither in headers nor in bodies, of answers of all kinds (trap 24).
#[tokio::test]
async fn a_key_is_never_echoed() {
    let api = Api::new(policy(), Handler::counting());
    let key = "very-secret-key";
    let requests = [
        charge(key, "100"),
        charge(key, "100"),
        charge(key, "200"),
        charge(&format!("{key} {key}"), "100"),
        charge(&key.repeat(20), "100"),
        charge(key, "100").with("idempotency-key", key),
    ];
    for (request, status) in requests.into_iter().zip([201, 201, 409, 400, 400, 400]) {
        let reply = api.send(request).await;
        assert_eq!(reply.status, status);
        assert!(!format!("{reply:?}").contains(key), "{reply:?}");
    }
}

/// The upstream's own protection must see the key that ours used.
#[tokio::test]
async fn a_key_from_elsewhere_replaces_the_header_that_was_not_asked_for() {
    let api = Api::new(policy().key_from(sources(&["json:/key"])), Handler::counting());
    let request = charge("not-this-one", r#"{"key":"this-one"}"#);
    assert_eq!(api.send(request).await.status, 201);
    assert_eq!(api.handler.last().header("idempotency-key"), Some("this-one"));
}

/// A key that may be in the body, but need not be: a request without one is passed on whatever
/// else it lacks.
#[tokio::test]
async fn a_request_that_needs_no_key_is_not_refused_for_want_of_an_identity() {
    let policy = policy()
        .key_from(sources(&["json:/key"]))
        .key(KeyRule::Optional)
        .on_missing_scope(OnMissingScope::Reject)
        .max_request_body(20);
    let api = Api::new(policy, Handler::counting());
    assert_eq!(api.send(keyless("POST", "/charges", r#"{"amount":1}"#)).await.status, 201);
    // What is not read to its end may have a key further on.
    let large = api.send(keyless("POST", "/charges", "x".repeat(100))).await;
    large.assert_problem(413, "request_body_too_large", false);
    assert_eq!(api.handler.runs(), 1);
    let keyed = api.send(keyless("POST", "/charges", r#"{"key":"k"}"#)).await;
    keyed.assert_problem(401, "idempotency_scope_missing", false);
    assert_eq!(keyed.header("www-authenticate"), Some("Bearer"));
}
