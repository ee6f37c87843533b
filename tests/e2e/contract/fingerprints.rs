//! Which requests are the same when a key comes again.

use crate::support::{Call, Setup, Upstream};

/// Sends both with one key. Returns true if the second is the same request as the first.
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

fn typed(content_type: &str, body: &[u8]) -> Call {
    Call::new("POST", "/t").key("k").field("Content-Type", content_type).body(body)
}

/// The content type counts with its parameters, and so does what changes the meaning of a request;
/// other headers count if named.
#[test]
fn headers_count_if_they_change_the_meaning_or_are_named() {
    let (plain, utf8) = ("application/json", "Application/JSON; charset=utf-8");
    assert!(are_same("", &typed(plain, b"1"), &typed(utf8, b"1")));
    assert!(!are_same("", &typed(plain, b"1"), &typed("text/plain", b"1")));
    let (latin, other) = ("text/plain; charset=iso-8859-1", "text/plain; charset=iso-8859-2");
    assert!(!are_same("", &typed(latin, b"1"), &typed(other, b"1")));
    assert!(are_same("", &typed(latin, b"1"), &typed("Text/Plain;Charset=\"ISO-8859-1\"", b"1")));
    let call = |name, value| Call::new("POST", "/t").key("k").field(name, value).body(b"1");
    for name in ["If-Match", "If-None-Match", "If-Unmodified-Since", "Content-Range", "Prefer"] {
        assert!(!are_same("", &call(name, "1"), &call(name, "2")), "{name}");
    }
    for name in ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"] {
        assert!(are_same("", &call(name, "PUT"), &call(name, "PUT")), "{name}");
        assert!(!are_same("", &call(name, "PUT"), &call(name, "DELETE")), "{name}");
        assert!(!are_same("", &call(name, "PUT"), &call("Accept", "*/*")), "{name}");
    }
    let (one, two) = (call("X-Version", "1"), call("X-Version", "2"));
    assert!(are_same("", &one, &two));
    assert!(!are_same("fingerprint_headers = [\"x-version\"]", &one, &two));
}

/// A client that builds its request again makes up a new boundary.
#[test]
fn a_multipart_may_come_again_with_another_boundary() {
    let upload = |boundary: &str, text: &str| {
        let head = "Content-Disposition: form-data; name=\"a\"; filename=\"a\"";
        let body = format!("--{boundary}\r\n{head}\r\n\r\n{text}\r\n--{boundary}--\r\n");
        typed(&format!("multipart/form-data; boundary={boundary}"), body.as_bytes())
    };
    assert!(are_same("", &upload("one", "text"), &upload("two", "text")));
    assert!(!are_same("", &upload("one", "text"), &upload("one", "test")));
    // Some servers would take the line for a boundary.
    assert!(!are_same("", &upload("one", "a\n--two\nb"), &upload("two", "a\n--two\nb")));
}

#[test]
fn fields_of_a_form_may_come_in_another_order() {
    let form = |text: &str| typed("application/x-www-form-urlencoded", text.as_bytes());
    assert!(are_same("", &form("amount=1&to=a&to=b"), &form("to=a&to=b&amount=1")));
    assert!(!are_same("", &form("amount=1&to=a&to=b"), &form("to=b&to=a&amount=1")));
    assert!(!are_same("", &form("amount=1&to=a"), &form("amount=1&to=b")));
}

/// `{"amount": 1}` and `{ "amount":1 }`, made at no time.
const TIGHT: &[u8] = &[
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xab, 0x56, 0x4a, 0xcc, 0xcd, 0x2f,
    0xcd, 0x2b, 0x51, 0xb2, 0x52, 0x30, 0xac, 0x05, 0x00, 0x66, 0x87, 0x63, 0xcb, 0x0d, 0x00, 0x00,
    0x00,
];
const SPACED: &[u8] = &[
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xab, 0x56, 0x50, 0x4a, 0xcc, 0xcd,
    0x2f, 0xcd, 0x2b, 0x51, 0xb2, 0x32, 0x54, 0xa8, 0x05, 0x00, 0x0e, 0x52, 0x85, 0x10, 0x0e, 0x00,
    0x00, 0x00,
];

/// The same with the time at which it was made.
fn gzip(body: &[u8], time: u8) -> Vec<u8> {
    [&body[..4], &[time], &body[5..]].concat()
}

#[test]
fn encoded_bodies_are_compared_by_their_decoded_content() {
    let call = |coding: &str, body: &[u8]| {
        typed("application/json", body).field("Content-Encoding", coding)
    };
    assert!(are_same("", &call("gzip", &gzip(TIGHT, 1)), &call("gzip", &gzip(TIGHT, 2))));
    assert!(are_same("", &call("gzip", &gzip(TIGHT, 1)), &call("GZip", &gzip(SPACED, 2))));
    assert!(!are_same("", &call("gzip", TIGHT), &typed("application/json", TIGHT)));
    assert!(!are_same("", &call("br", &gzip(TIGHT, 1)), &call("br", &gzip(TIGHT, 2))));
    let trailing = |time| [gzip(TIGHT, time), b"x".to_vec()].concat();
    assert!(!are_same("", &call("gzip", &trailing(1)), &call("gzip", &trailing(2))));
    let plain = typed("application/json", b"{\"amount\": 1}");
    assert!(are_same("", &plain, &call("identity", b"{\"amount\":1}")));
    assert!(!are_same("", &plain, &call("gzip", TIGHT)));
}

#[test]
fn text_json_is_json() {
    for content_type in ["text/json", "application/vnd.shop+json"] {
        let (one, two) = (typed(content_type, b"{\"a\":1}"), typed(content_type, b"{ \"a\": 1 }"));
        assert!(are_same("", &one, &two), "{content_type}");
    }
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
