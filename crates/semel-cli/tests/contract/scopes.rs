//! Whose key it is (I7). Trap 10: client, method and path are always part of it.

use std::net::Ipv4Addr;

use crate::support::{Call, Gateway, Setup, Upstream};

fn gateway(upstream: &Upstream, scope: &str) -> Gateway {
    Setup::before(upstream).memory().policy(&format!("scope = {scope}")).start()
}

/// Do these requests, all with one key, have a record each?
fn assert_apart(calls: &[Call], gateway: &Gateway, upstream: &Upstream) {
    for call in calls {
        let answer = call.send(gateway);
        assert_eq!((answer.status, answer.is_replay()), (201, false), "{call:?}");
    }
    assert_eq!(upstream.count(), calls.len());
    for call in calls {
        assert!(call.send(gateway).is_replay(), "{call:?}");
    }
}

fn token(claims: &str) -> String {
    let (mut bits, mut count, mut text) = (0_u32, 0, String::new());
    for byte in claims.bytes() {
        (bits, count) = ((bits << 8) | u32::from(byte), count + 8);
        while count >= 6 {
            count -= 6;
            text.push(letter((bits >> count) & 63));
        }
    }
    if count > 0 {
        text.push(letter((bits << (6 - count)) & 63));
    }
    format!("Bearer e30.{text}.signature")
}

fn letter(bits: u32) -> char {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    char::from(LETTERS[bits as usize])
}

/// The default: `Authorization`; all who send none share a scope of their own.
#[test]
fn a_key_belongs_to_a_credential() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).start();
    let call = Call::charge("k");
    let calls = [
        call.clone(),
        call.clone().from("Bearer alice"),
        call.clone().from("Bearer bob"),
        call.from("bearer alice"),
    ];
    assert_apart(&calls, &gateway, &upstream);
}

/// An empty value says nothing: its client shares the scope of those who send none.
#[test]
fn an_empty_credential_is_no_identity() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream)
        .memory()
        .route("POST /strict", "on_missing_scope = \"reject\"")
        .start();
    let strict = Call::new("POST", "/strict").key("k").from("").send(&gateway);
    strict.assert_problem(401, "idempotency_scope_missing", false);
    assert!(!Call::charge("k").send(&gateway).is_replay());
    assert!(Call::charge("k").from("").send(&gateway).is_replay());
    assert_eq!(upstream.count(), 1);
}

#[test]
fn a_key_belongs_to_any_header_that_is_named() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream, "[\"header:x-tenant\", \"header:x-user\"]");
    let call = |tenant, user| Call::charge("k").field("X-Tenant", tenant).field("X-User", user);
    let calls = [call("a", "b"), call("b", "a"), call("ab", ""), call("", "ab")];
    assert_apart(&calls, &gateway, &upstream);
    // What is not named does not count.
    assert!(call("a", "b").from("Bearer other").send(&gateway).is_replay());
}

/// `jwt:sub`: the claim counts, whatever else the token says; a new token of the same client is
/// the same client.
#[test]
fn a_key_belongs_to_a_claim_of_a_token() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream, "[\"jwt:sub\"]");
    let call = |claims| Call::charge("k").from(&token(claims));
    let calls = [call(r#"{"sub":"alice","exp":1}"#), call(r#"{"sub":"bob","exp":1}"#)];
    assert_apart(&calls, &gateway, &upstream);
    assert!(call(r#"{"exp":2,"sub":"alice"}"#).send(&gateway).is_replay());
}

#[test]
fn a_token_without_the_claim_is_no_identity() {
    let upstream = Upstream::start();
    let policy = "scope = [\"jwt:sub\"]\non_missing_scope = \"reject\"";
    let gateway = Setup::before(&upstream).memory().policy(policy).start();
    for credential in [&token(r#"{"name":"alice"}"#), "Bearer a.b.c", "Basic YTpi", ""] {
        let answer = Call::charge("k").from(credential).send(&gateway);
        answer.assert_problem(401, "idempotency_scope_missing", false);
    }
    assert_eq!(upstream.count(), 0);
}

/// `client-ip`: that of the connection, never what a header says.
#[test]
fn a_key_belongs_to_an_address() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream, "[\"client-ip\"]");
    let call = Call::charge("k");
    for last in [1, 2] {
        let ip = Ipv4Addr::new(127, 0, 0, last).into();
        assert!(!call.send_from(ip, &gateway).is_replay());
        assert!(call.send_from(ip, &gateway).is_replay());
    }
    let lie = call.field("X-Forwarded-For", "127.0.0.9").send(&gateway);
    assert!(lie.is_replay());
    assert_eq!(upstream.count(), 2);
}

/// Behind a proxy that is believed (`forwarded = "append"`): the address that the proxy saw, which is
/// the last.
#[test]
fn a_key_belongs_to_an_address_behind_a_proxy() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream)
        .memory()
        .top("forwarded = \"append\"")
        .policy("scope = [\"client-ip\"]")
        .start();
    let call = |value| Call::charge("k").field("X-Forwarded-For", value);
    let calls = [Call::charge("k"), call("192.0.2.1"), call("192.0.2.1, 192.0.2.2")];
    assert_apart(&calls, &gateway, &upstream);
    // What a client says of itself comes before.
    assert!(call("10.0.0.1, 192.0.2.2").send(&gateway).is_replay());
}

#[test]
fn a_global_key_belongs_to_everyone() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream, "[\"global\"]");
    assert!(!Call::charge("k").from("Bearer alice").send(&gateway).is_replay());
    assert!(Call::charge("k").from("Bearer bob").send(&gateway).is_replay());
    assert_eq!(upstream.count(), 1);
}

/// Trap 10: one key for two methods or two paths is two operations.
#[test]
fn a_key_belongs_to_a_method_and_a_path() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream, "[\"global\"]");
    let call = |method, path| Call::new(method, path).key("k").json("{}");
    let calls = [
        call("POST", "/charges"),
        call("PATCH", "/charges"),
        call("PUT", "/charges"),
        call("POST", "/refunds"),
        call("POST", "/charges/7"),
    ];
    assert_apart(&calls, &gateway, &upstream);
}

/// Under a route with a pattern the pattern is the scope, and the path is part of the fingerprint:
/// never another's answer.
#[test]
fn a_key_on_another_path_of_the_same_route_is_a_mismatch() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).memory().route("POST /orders/{id}", "").start();
    let call = |path| Call::new("POST", path).key("k").json("{}");
    assert_eq!(call("/orders/1").send(&gateway).status, 201);
    let other = call("/orders/2").send(&gateway);
    other.assert_problem(409, "idempotency_payload_mismatch", false);
    assert_eq!(upstream.count(), 1);
}

/// Two applications on one store have a namespace each.
#[test]
fn a_key_belongs_to_a_namespace() {
    let upstream = Upstream::start();
    let setup = Setup::before(&upstream);
    let first = setup.clone().top("namespace = \"shop\"").start();
    assert!(!Call::charge("k").send(&first).is_replay());
    first.kill();
    let second = setup.clone().top("namespace = \"bank\"").start();
    assert!(!Call::charge("k").send(&second).is_replay());
    second.kill();
    let first = setup.top("namespace = \"shop\"").start();
    assert!(Call::charge("k").send(&first).is_replay());
    assert_eq!(upstream.count(), 2);
}
