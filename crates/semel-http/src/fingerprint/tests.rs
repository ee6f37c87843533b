use http::Request;

use super::*;
use crate::json::Pointer;

fn fingerprint(method: &str, uri: &str, fields: &[(&str, &str)], body: &str) -> Fingerprint {
    let ignore = vec![Pointer::parse("/trace_id").unwrap()];
    let policy = RoutePolicy::builder().fingerprint_ignore(ignore).build().unwrap();
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let (parts, ()) = request.body(()).unwrap().into_parts();
    fingerprint_of(&parts, body.as_bytes(), &policy)
}

const JSON: &[(&str, &str)] = &[("content-type", "application/json")];

fn json(body: &str) -> Fingerprint {
    fingerprint("POST", "/a", JSON, body)
}

/// Trap 10: method, path and query are part of it.
#[test]
fn method_path_query_and_body_all_count() {
    let base = fingerprint("POST", "/a?x=1", JSON, "{}");
    assert_eq!(base, fingerprint("POST", "/a?x=1", JSON, "{}"));
    assert_ne!(base, fingerprint("PATCH", "/a?x=1", JSON, "{}"));
    assert_ne!(base, fingerprint("POST", "/b?x=1", JSON, "{}"));
    assert_ne!(base, fingerprint("POST", "/a?x=2", JSON, "{}"));
    assert_ne!(base, fingerprint("POST", "/a?x=1", JSON, "[]"));
    assert_ne!(fingerprint("POST", "/a", JSON, ""), fingerprint("POST", "/a?", JSON, ""));
}

#[test]
fn order_space_and_ignored_members_do_not_count() {
    let base = json(r#"{"amount":100,"currency":"eur"}"#);
    assert_eq!(base, json(r#"{ "currency": "eur", "amount": 100 }"#));
    assert_eq!(base, json(r#"{"trace_id":"t-2","amount":100,"currency":"\u0065ur"}"#));
    assert_ne!(base, json(r#"{"amount":100.0,"currency":"eur"}"#));
}

/// Trap 11: digits and duplicate members.
#[test]
fn texts_that_could_differ_in_meaning_differ() {
    assert_ne!(json(r#"{"n":9007199254740993}"#), json(r#"{"n":9007199254740992}"#));
    assert_ne!(json(r#"{"n":1,"n":2}"#), json(r#"{"n":2}"#));
    assert_ne!(json(r#"{"n":1,"n":2}"#), json(r#"{"n":2,"n":1}"#));
    assert_ne!(json(r#"{"n":1"#), json(r#"{"n":1}"#));
}

#[test]
fn only_the_essence_of_a_content_type_counts() {
    let with = |value| fingerprint("POST", "/a", &[("content-type", value)], "{}");
    assert_eq!(with("application/json"), with("Application/JSON; charset=utf-8"));
    assert_ne!(with("application/json"), with("application/merge-patch+json"));
    assert_ne!(with("application/json"), with("text/plain"));
}

#[test]
fn what_is_not_plain_json_is_compared_as_bytes() {
    let spaced = |fields| fingerprint("POST", "/a", fields, "{ }");
    let tight = |fields| fingerprint("POST", "/a", fields, "{}");
    for fields in [
        &[][..],
        &[("content-type", "text/plain")],
        &[("content-type", "application/json; charset=utf-16")],
        &[("content-type", "application/json"), ("content-encoding", "gzip")],
        &[("content-type", "application/json"), ("content-type", "application/json")],
    ] {
        assert_ne!(spaced(fields), tight(fields), "{fields:?}");
    }
    assert_eq!(spaced(JSON), tight(JSON));
    assert_eq!(
        spaced(&[("content-type", "application/vnd.shop+json")]),
        tight(&[("content-type", "application/vnd.shop+json")])
    );
}
