//! Where keys come from, and which of them are the same.

use crate::support::{Call, Setup, Upstream};

const UUID: &str = "0E9B1F6C-6E39-4F6A-8B1D-2A5D5C1D9E10";

/// True if the second key names the same operation as the first.
fn are_same(policy: &str, first: &str, second: &str) -> bool {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).memory().policy(policy).start();
    assert_eq!(Call::charge(first).send(&gateway).status, 201, "{first}");
    let second = Call::charge(second).send(&gateway);
    assert_eq!(second.status, 201, "{}", second.text());
    assert_eq!(second.is_replay(), upstream.count() == 1);
    second.is_replay()
}

/// The bare form and the string of the IETF draft name the same key.
#[test]
fn a_key_may_be_quoted() {
    assert!(are_same("", "order:12345:charge", "\"order:12345:charge\""));
    assert!(are_same("", "\"a\\\"b\"", "\"a\\\"b\""));
}

#[test]
fn a_uuid_is_the_same_in_both_cases() {
    assert!(are_same("", UUID, &UUID.to_lowercase()));
    assert!(are_same("key_format = \"uuid\"", &format!("\"{UUID}\""), &UUID.to_lowercase()));
}

#[test]
fn other_keys_are_not_the_same_in_both_cases() {
    assert!(!are_same("", "Order-1", "order-1"));
    assert!(!are_same("", "k-1", "k-2"));
}

/// 128 characters, or 255 under the profile stripe, or as set.
#[test]
fn keys_have_a_greatest_length() {
    for (policy, max) in [("", 128), ("profile = \"stripe\"", 255), ("key_max_length = 16", 16)] {
        let upstream = Upstream::start();
        let gateway = Setup::before(&upstream).memory().policy(policy).start();
        assert_eq!(Call::charge(&"k".repeat(max)).send(&gateway).status, 201, "{policy}");
        let answer = Call::charge(&"k".repeat(max + 1)).send(&gateway);
        answer.assert_problem(400, "idempotency_key_invalid", false);
        assert_eq!(upstream.count(), 1, "{policy}");
    }
}

/// `key_format = "uuid"`.
#[test]
fn a_route_may_demand_a_uuid() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).memory().policy("key_format = \"uuid\"").start();
    for key in ["order-1", &UUID[1..], &UUID.replace('-', "")] {
        let answer = Call::charge(key).send(&gateway);
        answer.assert_problem(400, "idempotency_key_invalid", false);
    }
    assert_eq!(Call::charge(UUID).send(&gateway).status, 201);
}

const SOURCES: &str = "key_from = [\"header:idempotency-key\", \"header:paypal-request-id\", \
                       \"json:/meta/key\"]";

/// `key_from`: the first source that has one counts, and the upstream gets it in the usual place.
#[test]
fn a_key_may_come_in_another_header() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).policy(SOURCES).start();
    let call = Call::new("POST", "/pay").field("PayPal-Request-Id", "pp-1").json("{}");
    assert!(!call.send(&gateway).is_replay());
    assert!(call.send(&gateway).is_replay());
    let both = Call::new("POST", "/pay").field("PayPal-Request-Id", "pp-1").key("k-1").json("{}");
    assert!(!both.send(&gateway).is_replay());
    assert_eq!((upstream.executions("pp-1"), upstream.executions("k-1")), (1, 1));
}

#[test]
fn a_key_may_come_in_the_body() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).policy(SOURCES).start();
    let call = Call::new("POST", "/pay").json(r#"{"meta":{"key":"body-1"},"amount":5}"#);
    assert!(!call.send(&gateway).is_replay());
    assert!(call.send(&gateway).is_replay());
    assert_eq!(upstream.executions("body-1"), 1);
    let missing = Call::new("POST", "/pay").json(r#"{"meta":{}}"#).send(&gateway);
    missing.assert_problem(400, "idempotency_key_missing", false);
    let wrong = Call::new("POST", "/pay").json(r#"{"meta":{"key":[1]}}"#).send(&gateway);
    wrong.assert_problem(400, "idempotency_key_invalid", false);
    assert_eq!(upstream.count(), 1);
}

/// The upstream may read a key where the gateway cannot. Such a request is never executed
/// without protection, also where a key is optional.
#[test]
fn a_body_whose_key_cannot_be_read_is_refused() {
    let upstream = Upstream::start();
    let policy = format!("{SOURCES}\nmax_request_body = \"4KiB\"");
    let gateway = Setup::before(&upstream).memory().policy(&policy).start();
    let send = |method, fields: &[(&str, &str)], body: &[u8]| {
        let call = Call::new(method, "/pay").json("").body(body);
        fields.iter().fold(call, |call, (name, value)| call.field(name, value)).send(&gateway)
    };
    let deep = format!(r#"{{"meta":{{"key":"k"}},"x":{}1{}}}"#, "[".repeat(500), "]".repeat(500));
    let large = format!(r#"{{"x":"{}","meta":{{"key":"k"}}}}"#, "x".repeat(5_000));
    for method in ["POST", "PUT"] {
        for body in [
            &b"\xef\xbb\xbf{\"meta\":{\"key\":\"k\"}}"[..],
            br#"{"meta":{"key":"k","key":"l"}}"#,
            br#"{"meta":{"key":"k"},"meta":{}}"#,
            deep.as_bytes(),
            br#"{"meta":{"key":"k"},}"#,
        ] {
            let answer = send(method, &[], body);
            answer.assert_problem(400, "idempotency_key_invalid", false);
        }
        let utf7 = [("Content-Type", "application/json; charset=utf-7")];
        let utf32 = " {\"meta\":{\"key\":\"k\"}}".chars().map(u32::from).flat_map(u32::to_be_bytes);
        for (fields, body) in [
            (&[("Content-Encoding", "gzip")][..], b"\x1f\x8b\x08".to_vec()),
            (&utf7, br#"{"+AG0-eta":{"key":"k"}}"#.to_vec()),
            (&[("Content-Type", "application/octet-stream")], utf32.collect()),
            (&[("Idempotency_Key", "k")], b"{}".to_vec()),
        ] {
            let answer = send(method, fields, &body);
            answer.assert_problem(400, "idempotency_key_invalid", false);
        }
        let answer = send(method, &[], large.as_bytes());
        answer.assert_problem(413, "request_body_too_large", false);
    }
    assert_eq!(upstream.count(), 0);
    // A key in a header is one, whatever the body is.
    for (number, body) in [deep.as_bytes(), br#"{"x":1,"x":2}"#].into_iter().enumerate() {
        let key = format!("header-{number}");
        assert_eq!(send("PUT", &[("Idempotency-Key", &key)], body).status, 201);
    }
    // And a body that is no JSON at all has none.
    let text = Call::new("PUT", "/pay").field("Content-Type", "text/plain").body(b"hello");
    assert_eq!(text.send(&gateway).status, 201);
}

/// A key is never echoed.
#[test]
fn an_answer_never_shows_the_key() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).start();
    let call = Call::charge("canary-of-a-key");
    let answers = [call.send(&gateway), call.send(&gateway), call.json("{}").send(&gateway)];
    assert_eq!(answers.each_ref().map(|answer| answer.status), [201, 201, 409]);
    for answer in answers {
        assert!(!format!("{answer:?}").contains("canary-of-a-key"));
        assert!(!answer.text().contains("canary-of-a-key"));
    }
}
