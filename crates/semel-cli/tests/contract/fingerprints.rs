//! Which requests are the same when a key comes again.

use crate::support::{Call, Setup, Upstream};

/// Sends both with one key: is the second the same request as the first?
fn are_same(policy: &str, first: &Call, second: &Call) -> bool {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).memory().policy(policy).start();
    let first = first.send(&gateway);
    assert_eq!(first.status, 201, "{}", first.text());
    let second = second.send(&gateway);
    assert_eq!(upstream.count(), 1);
    if second.is_replay() {
        assert_eq!(second.body, first.body);
        return true;
    }
    second.assert_problem(409, "idempotency_payload_mismatch", false);
    false
}

fn json(body: &str) -> Call {
    Call::charge("k").json(body)
}

fn same_json(first: &str, second: &str) -> bool {
    are_same("", &json(first), &json(second))
}

#[test]
fn the_order_of_members_and_white_space_do_not_matter() {
    assert!(same_json(
        r#"{"a":1,"b":{"c":[1,2],"d":null}}"#,
        "{ \"b\":{\"d\":null,\n\"c\":[ 1,2]},\t\"a\":1 }"
    ));
    assert!(same_json(r#"{"text":"A\u00e9"}"#, "{\"text\":\"\\u0041\u{e9}\"}"));
}

/// Trap 11: every digit counts.
#[test]
fn numbers_keep_every_digit() {
    assert!(!same_json(r#"{"id":9007199254740993}"#, r#"{"id":9007199254740992}"#));
    assert!(!same_json(r#"{"n":0.1000000000000000055}"#, r#"{"n":0.1000000000000000056}"#));
    assert!(!same_json(r#"{"n":1e400}"#, r#"{"n":1e401}"#));
}

/// Trap 11: nor do duplicate members vanish.
#[test]
fn duplicate_members_are_compared_as_bytes() {
    assert!(!same_json(r#"{"a":1,"a":2}"#, r#"{"a":2}"#));
    assert!(!same_json(r#"{"a":1,"a":2}"#, r#"{"a":2,"a":1}"#));
    assert!(same_json(r#"{"a":1,"a":2}"#, r#"{"a":1,"a":2}"#));
}

#[test]
fn other_values_are_another_request() {
    assert!(!same_json("[1,2]", "[2,1]"));
    assert!(!same_json(r#"{"a":null}"#, "{}"));
    assert!(!same_json(r#"{"a":"1"}"#, r#"{"a":1}"#));
    assert!(!same_json(r#"{"a":"x"}"#, r#"{"a":"X"}"#));
}

/// What is no JSON is compared as bytes.
#[test]
fn other_bodies_are_compared_as_bytes() {
    let text = |body: &[u8]| {
        Call::new("POST", "/t").key("k").field("Content-Type", "text/plain").body(body)
    };
    assert!(are_same("", &text(b"a b"), &text(b"a b")));
    assert!(!are_same("", &text(b"{\"a\":1}"), &text(b"{ \"a\":1}")));
    assert!(!are_same("", &text(b""), &text(b"\0")));
    assert!(!same_json("{\"a\":1", "{ \"a\":1"));
}

/// Trap 10: the query is part of it.
#[test]
fn another_query_is_another_request() {
    let call = |query: &str| Call::new("POST", &format!("/charges{query}")).key("k").json("{}");
    assert!(are_same("", &call("?a=1&b=2"), &call("?a=1&b=2")));
    assert!(!are_same("", &call("?a=1"), &call("?a=2")));
    assert!(!are_same("", &call(""), &call("?")));
    assert!(!are_same("", &call("?a=1&b=2"), &call("?b=2&a=1")));
}

/// The essence of the content type counts, its parameters do not; other headers count if named.
#[test]
fn headers_count_if_they_are_named() {
    let call = |name, value| Call::new("POST", "/t").key("k").field(name, value).body(b"1");
    let (plain, utf8) = ("application/json", "application/json; charset=utf-8");
    assert!(are_same("", &call("Content-Type", plain), &call("Content-Type", utf8)));
    assert!(!are_same("", &call("Content-Type", plain), &call("Content-Type", "text/plain")));
    let (one, two) = (call("X-Version", "1"), call("X-Version", "2"));
    assert!(are_same("", &one, &two));
    assert!(!are_same("fingerprint_headers = [\"x-version\"]", &one, &two));
}

/// `fingerprint_ignore`.
#[test]
fn members_may_be_ignored() {
    let policy = "fingerprint_ignore = [\"/timestamp\", \"/meta/trace_id\"]";
    let body = |time: u32, trace: &str, amount: u32| {
        json(&format!(
            r#"{{"timestamp":{time},"meta":{{"trace_id":"{trace}"}},"amount":{amount}}}"#
        ))
    };
    assert!(are_same(policy, &body(1, "a", 5), &body(2, "b", 5)));
    assert!(!are_same(policy, &body(1, "a", 5), &body(1, "a", 6)));
    assert!(!are_same("", &body(1, "a", 5), &body(2, "a", 5)));
    assert!(are_same(policy, &json(r#"{"timestamp":1,"a":2}"#), &json(r#"{"a":2}"#)));
}
