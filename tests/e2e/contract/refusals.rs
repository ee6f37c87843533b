//! Requests that are refused before a claim: they execute nothing, and say why.

use crate::support::{Call, Setup, Upstream};

/// Row "key missing where required"; the detail tells what to send.
#[test]
fn a_post_without_a_key_is_refused() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).start();
    for method in ["POST", "PATCH"] {
        let answer = Call::new(method, "/v1/charges").json("{}").send(&gateway);
        answer.assert_problem(400, "idempotency_key_missing", false);
        assert_eq!(answer.retry_after(), None);
        assert!(answer.text().to_lowercase().contains("idempotency-key"), "{}", answer.text());
    }
    assert_eq!(upstream.count(), 0);
}

/// Row "key malformed": empty, too long, with other characters, unfinished quotes.
#[test]
fn a_malformed_key_is_refused() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).start();
    let long = "k".repeat(129);
    for key in ["", "\"\"", &long, "two words", "\"open", "caf\u{e9}", "a\tb"] {
        let answer = Call::charge(key).send(&gateway);
        answer.assert_problem(400, "idempotency_key_invalid", false);
        assert_eq!(answer.retry_after(), None, "{key:?}");
        assert!(key.len() < 3 || !answer.text().contains(key), "the key {key:?} is echoed");
    }
    assert_eq!(upstream.count(), 0);
}

/// Row "key malformed": more than one header field, equal or not.
#[test]
fn two_keys_are_refused() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).start();
    for second in ["first-key", "second-key"] {
        let answer = Call::charge("first-key").key(second).send(&gateway);
        answer.assert_problem(400, "idempotency_key_invalid", false);
    }
    assert_eq!(upstream.count(), 0);
}

/// Row "no client identity", `on_missing_scope = "reject"`; also what `payments` sets.
#[test]
fn a_client_without_identity_is_refused_where_one_is_asked_for() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream)
        .policy("on_missing_scope = \"reject\"")
        .route("POST /payments", "preset = \"payments\"")
        .start();
    let payment = Call::new("POST", "/payments").key("pay-1").json("{}");
    for call in [Call::charge("k-1"), payment.clone()] {
        let answer = call.send(&gateway);
        answer.assert_problem(401, "idempotency_scope_missing", false);
        assert_eq!(answer.retry_after(), None);
    }
    assert_eq!(upstream.count(), 0);
    assert_eq!(payment.from("Bearer alice").send(&gateway).status, 201);
}

/// Row "body over `max_request_body`": declared or not, and one byte less is fine. Trap 25.
#[test]
fn a_body_over_its_limit_is_refused_and_nothing_executes() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).policy("max_request_body = \"1KiB\"").start();
    let answer = Call::charge("large").body(&[b'x'; 1_025]).send(&gateway);
    answer.assert_problem(413, "request_body_too_large", false);
    assert_eq!((answer.retry_after(), upstream.count()), (None, 0));
    let fits = Call::charge("fits").body(&[b'x'; 1_024]).send(&gateway);
    assert_eq!((fits.status, upstream.count()), (201, 1));
    assert_eq!(upstream.seen()[0].body.len(), 1_024);
}

/// A refusal is not an outcome: the same key may be used afterwards. Trap 7.
#[test]
fn a_refused_request_does_not_use_up_its_key() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).policy("max_request_body = \"1KiB\"").start();
    assert_eq!(Call::charge("k-1").body(&[b'x'; 2_000]).send(&gateway).status, 413);
    let answer = Call::charge("k-1").send(&gateway);
    assert_eq!((answer.status, answer.is_replay(), upstream.count()), (201, false, 1));
}

/// Problems must not be kept by caches on the way.
#[test]
fn problems_are_not_for_caches() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).memory().start();
    let answer = Call::new("POST", "/").send(&gateway);
    assert_eq!(answer.header("cache-control"), Some("no-store"));
}
