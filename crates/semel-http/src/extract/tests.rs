use http::Request;
use semel_core::{KeyFormat, Scope};

use super::*;
use crate::policy::OnMissingScope;
use crate::source::ScopeSource;

fn headers(fields: &[(&str, &str)]) -> HeaderMap {
    let mut request = Request::builder();
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0.headers
}

fn policy(sources: &[&str]) -> RoutePolicy {
    let sources = sources.iter().map(|source| source.parse().unwrap()).collect();
    RoutePolicy::builder().key_from(sources).build().unwrap()
}

#[test]
fn both_forms_of_the_header_name_the_same_key() {
    let policy = RoutePolicy::default();
    let bare = key_in_headers(&headers(&[("idempotency-key", "k-1")]), &policy).unwrap();
    let quoted = key_in_headers(&headers(&[("Idempotency-Key", "\"k-1\"")]), &policy).unwrap();
    assert_eq!(bare, quoted);
    assert_eq!(bare.unwrap().as_str(), "k-1");
    assert_eq!(key_in_headers(&headers(&[]), &policy), Ok(None));
}

#[test]
fn bad_keys_are_refused() {
    let policy = RoutePolicy::default();
    let long = "k".repeat(129);
    for value in ["", "  ", "a b", "\"a", &long, "caf\u{e9}"] {
        let map = headers(&[("idempotency-key", value)]);
        assert!(matches!(key_in_headers(&map, &policy), Err(KeyProblem::Malformed(_))), "{value}");
    }
    let twice = headers(&[("idempotency-key", "a"), ("idempotency-key", "a")]);
    assert!(matches!(key_in_headers(&twice, &policy), Err(KeyProblem::Repeated(_))));
}

#[test]
fn key_format_uuid_wants_a_uuid() {
    let policy = RoutePolicy::builder().key_format(KeyFormat::Uuid).build().unwrap();
    let map = headers(&[("idempotency-key", "order-1")]);
    assert!(key_in_headers(&map, &policy).is_err());
    let map = headers(&[("idempotency-key", "9b2e6c1c-3e0b-4f0e-9a55-0c5b8c3f1a11")]);
    assert!(key_in_headers(&map, &policy).unwrap().is_some());
}

#[test]
fn the_first_source_that_has_a_key_wins() {
    let policy = policy(&["header:idempotency-key", "header:paypal-request-id", "json:/key"]);
    let both = headers(&[("paypal-request-id", "p"), ("idempotency-key", "i")]);
    assert_eq!(key_in_headers(&both, &policy).unwrap().unwrap().as_str(), "i");
    let second = headers(&[("paypal-request-id", "p")]);
    assert_eq!(key_in_headers(&second, &policy).unwrap().unwrap().as_str(), "p");
    assert!(looks_into_body(&policy));
}

#[test]
fn a_key_in_the_body_is_found() {
    let policy = policy(&["json:/key"]);
    let found = |body: &str| key_in_body(body.as_bytes(), &policy);
    assert_eq!(found(r#"{"key":"k-1"}"#).unwrap().unwrap().as_str(), "k-1");
    assert_eq!(found(r#"{"key":17}"#).unwrap().unwrap().as_str(), "17");
    assert_eq!(found(r#"{"other":1}"#), Ok(None));
    assert_eq!(found("not json"), Ok(None));
    assert_eq!(found(r#"{"key":null}"#), Err(KeyProblem::NotText));
    assert!(found(r#"{"key":""}"#).is_err());
    // Read in two ways by two readers: not a key.
    assert_eq!(found(r#"{"key":"a","key":"b"}"#), Ok(None));
}

fn scope(sources: &[&str], fields: &[(&str, &str)], what: &str) -> Scope {
    try_scope(sources, OnMissingScope::Anonymous, fields, what).unwrap()
}

fn try_scope(
    sources: &[&str],
    on_missing: OnMissingScope,
    fields: &[(&str, &str)],
    what: &str,
) -> Result<Scope, ScopeMissing> {
    let sources: Vec<ScopeSource> = sources.iter().map(|source| source.parse().unwrap()).collect();
    let policy =
        RoutePolicy::builder().scope(sources).on_missing_scope(on_missing).build().unwrap();
    let mut request = Request::builder().method("POST");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    scope_of(&request.body(()).unwrap().into_parts().0, what, &policy)
}

/// Trap 10: the same key of another client, or for another route, is another record (I7).
#[test]
fn identity_and_route_make_the_scope() {
    let by = |value| scope(&["header:authorization"], &[("authorization", value)], "/a");
    assert_eq!(by("Bearer ann"), by("Bearer ann"));
    assert_ne!(by("Bearer ann"), by("Bearer bob"));
    let ann = &[("authorization", "Bearer ann")][..];
    assert_ne!(by("Bearer ann"), scope(&["header:authorization"], ann, "/b"));
    let nobody = scope(&["header:authorization"], &[], "/a");
    assert_ne!(by("Bearer ann"), nobody);
    assert_eq!(nobody, scope(&["header:authorization"], &[("authorization", "")], "/a"));
}

#[test]
fn all_values_of_an_identity_count() {
    let one = scope(&["header:x-who"], &[("x-who", "a")], "/a");
    let two = scope(&["header:x-who"], &[("x-who", "a"), ("x-who", "b")], "/a");
    let joined = scope(&["header:x-who"], &[("x-who", "ab")], "/a");
    assert!(one != two && two != joined && one != joined);
}

#[test]
fn parts_of_an_identity_do_not_stand_in_for_each_other() {
    let sources = &["header:x-a", "header:x-b"];
    let a = scope(sources, &[("x-a", "1")], "/a");
    let b = scope(sources, &[("x-b", "1")], "/a");
    assert_ne!(a, b);
}

#[test]
fn an_identity_can_be_demanded() {
    let missing = try_scope(&["header:authorization"], OnMissingScope::Reject, &[], "/a");
    assert!(missing.unwrap_err().to_string().contains("header:authorization"));
    let half = try_scope(
        &["header:authorization", "header:x-tenant"],
        OnMissingScope::Reject,
        &[("authorization", "Bearer ann")],
        "/a",
    );
    assert!(half.unwrap_err().to_string().contains("x-tenant"));
}

#[test]
fn a_claim_of_a_token_is_an_identity() {
    let token = |payload: &str| format!("Bearer e30.{payload}.c2ln");
    let by = |payload: &str| scope(&["jwt:sub"], &[("authorization", &token(payload))], "/a");
    // {"sub":"ann"}, {"sub":"ann","x":1}, {"sub":"bob"}
    let (ann, ann_too, bob) =
        ("eyJzdWIiOiJhbm4ifQ", "eyJzdWIiOiJhbm4iLCJ4IjoxfQ", "eyJzdWIiOiJib2IifQ");
    assert_eq!(by(ann), by(ann_too));
    assert_ne!(by(ann), by(bob));
    for bad in ["", "Basic abc", "Bearer abc", "Bearer a.!.c"] {
        let result =
            try_scope(&["jwt:sub"], OnMissingScope::Reject, &[("authorization", bad)], "/a");
        assert!(result.is_err(), "{bad}");
    }
}

#[test]
fn the_clients_address_is_an_identity() {
    let by = |ip: Option<&str>| {
        let policy = RoutePolicy::builder().scope(vec![ScopeSource::ClientIp]).build().unwrap();
        let mut request = Request::new(());
        if let Some(ip) = ip {
            request.extensions_mut().insert(ClientIp(ip.parse().unwrap()));
        }
        scope_of(&request.into_parts().0, "/a", &policy).unwrap()
    };
    assert_eq!(by(Some("192.0.2.1")), by(Some("::ffff:192.0.2.1")));
    assert_ne!(by(Some("192.0.2.1")), by(Some("192.0.2.2")));
    assert_ne!(by(Some("192.0.2.1")), by(None));
}
