mod bodies;
mod golden;

use http::Request;

use super::*;
use crate::json::Pointer;
use crate::policy::RoutePolicyBuilder;
use crate::routes::Routes;

type Fields<'a> = &'a [(&'a str, &'a str)];

fn fingerprint_under(
    policy: RoutePolicyBuilder,
    (method, uri): (&str, &str),
    fields: Fields<'_>,
    body: &[u8],
) -> Fingerprint {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let (parts, ()) = request.body(()).unwrap().into_parts();
    fingerprint_of(&parts, body, Routes::new(policy.build().unwrap()).fallback())
}

fn fingerprint(method: &str, uri: &str, fields: Fields<'_>, body: &str) -> Fingerprint {
    let ignore = vec![Pointer::parse("/trace_id").unwrap()];
    let policy = RoutePolicy::builder().fingerprint_ignore(ignore);
    fingerprint_under(policy, (method, uri), fields, body.as_bytes())
}

/// Of a `POST /a`.
fn with(fields: Fields<'_>, body: &[u8]) -> Fingerprint {
    fingerprint_under(RoutePolicy::builder(), ("POST", "/a"), fields, body)
}

const JSON: Fields<'_> = &[("content-type", "application/json")];

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

const COUNTED: [&str; 8] = [
    "content-range",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "prefer",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
];

#[test]
fn headers_that_change_the_operation_count_on_every_route() {
    let bare = with(JSON, b"{}");
    for name in COUNTED {
        let fields = |value| [JSON[0], (name, value)];
        let one = with(&fields("1"), b"{}");
        assert_eq!(one, with(&[(name, "1"), JSON[0]], b"{}"), "{name}");
        assert_ne!(one, bare, "{name}");
        assert_ne!(one, with(&fields("2"), b"{}"), "{name}");
        assert_ne!(with(&fields(""), b"{}"), bare, "{name}");
        let twice = [JSON[0], (name, "1"), (name, "2")];
        assert_ne!(one, with(&twice, b"{}"), "{name}");
        assert_ne!(with(&twice, b"{}"), with(&[JSON[0], (name, "2"), (name, "1")], b"{}"));
        for other in COUNTED.iter().filter(|other| **other != name) {
            assert_ne!(one, with(&[JSON[0], (other, "1")], b"{}"), "{name} {other}");
        }
    }
}

/// CGI, WSGI and their kin read `If_Match` as `If-Match`, and others do not.
#[test]
fn headers_count_that_are_spelled_with_underscores() {
    let bare = with(JSON, b"{}");
    let more = ["content-type", "content-encoding"];
    for name in COUNTED.iter().chain(&more).filter(|name| name.contains('-')) {
        for spelled in [name.replace('-', "_"), name.replacen('-', "_", 1)] {
            let one = with(&[JSON[0], (&spelled, "1")], b"{}");
            assert_ne!(one, bare, "{spelled}");
            assert_ne!(one, with(&[JSON[0], (&spelled, "2")], b"{}"), "{spelled}");
            assert_ne!(one, with(&[JSON[0], (&spelled, "1"), (&spelled, "2")], b"{}"));
            assert_eq!(one, with(&[(&spelled, "1"), JSON[0], ("x_other", "2")], b"{}"));
            if COUNTED.contains(name) {
                assert_ne!(one, with(&[JSON[0], (name, "1")], b"{}"), "{spelled}");
            }
        }
    }
    let two = [("if_match", "1"), ("x_method_override", "PUT")];
    assert_eq!(with(&two, b"{}"), with(&[two[1], two[0]], b"{}"));
    assert_ne!(with(&two, b"{}"), with(&[("if_match", "PUT"), (two[1].0, "1")], b"{}"));
}

#[test]
fn headers_that_are_named_count_in_each_spelling() {
    let named = |fields: Fields<'_>| {
        let names = ["x-tenant", "x_user_id"].map(http::HeaderName::from_static);
        let policy = RoutePolicy::builder().fingerprint_headers(names.to_vec());
        fingerprint_under(policy, ("POST", "/a"), fields, b"{}")
    };
    let bare = named(&[]);
    for name in ["x-tenant", "x_tenant", "x_user_id", "x-user-id", "x-user_id"] {
        assert_ne!(named(&[(name, "1")]), bare, "{name}");
        assert_ne!(named(&[(name, "1")]), named(&[(name, "2")]), "{name}");
    }
    assert_eq!(named(&[("x-user", "1"), ("x_other", "1")]), bare);
}

#[test]
fn other_headers_count_if_they_are_named() {
    let (one, two) = ([JSON[0], ("x-a", "1")], [JSON[0], ("x-a", "2"), ("accept", "*/*")]);
    assert_eq!(with(&one, b"{}"), with(&two, b"{}"));
    let named = |fields: Fields<'_>| {
        let names = ["content-type", "x-a", "if-match"].map(http::HeaderName::from_static);
        let policy = RoutePolicy::builder().fingerprint_headers(names.to_vec());
        fingerprint_under(policy, ("POST", "/a"), fields, b"{}")
    };
    assert_ne!(named(&one), named(&two));
    assert_eq!(named(&one), named(&[("x-a", "1"), ("Content-Type", "application/JSON")]));
}

#[test]
fn the_content_type_counts_with_its_parameters() {
    let typed = |value| with(&[("content-type", value)], b"{}");
    assert_eq!(typed("application/json"), typed("Application/JSON; charset=utf-8"));
    assert_ne!(typed("application/json"), typed("application/json; version=2"));
    assert_ne!(typed("application/json"), typed("application/merge-patch+json"));
    assert_ne!(typed("application/json"), typed("text/json"));
    assert_ne!(typed("application/json"), typed("text/plain"));
    assert_ne!(typed("text/plain"), typed("text/plain; charset=utf-8"));
    assert_eq!(typed("text/plain;charset=UTF-8"), typed("Text/Plain; Charset=\"utf-8\""));
    assert_ne!(typed("text/plain"), with(&[], b"{}"));
}

/// One that breaks the grammar is compared as it came, and is never taken for another.
#[test]
fn an_unclear_content_type_is_compared_as_it_came() {
    let typed = |value| with(&[("content-type", value)], b"{}");
    assert_eq!(typed("text"), typed("text"));
    for other in ["Text", "text;", "text/plain", ""] {
        assert_ne!(typed("text"), typed(other), "{other}");
    }
    let two = |one, other| with(&[("content-type", one), ("content-type", other)], b"{}");
    assert_ne!(two("a/b", "a/b"), typed("a/b"));
    assert_ne!(two("a/b", "a/c"), two("a/c", "a/b"));
    assert_ne!(two("a/b", "a/c"), typed("a/b, a/c"));
}
