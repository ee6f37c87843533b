//! Whose key it is (I7). Trap 10: client, method and path are always part of it.

use std::net::Ipv4Addr;

use semel_testserver::base64url;

use crate::support::{Call, Gateway, Setup, Upstream, eventually};

fn gateway(upstream: &Upstream, scope: &str) -> Gateway {
    Setup::before(upstream).memory().policy(&format!("scope = {scope}")).start()
}

/// True if these requests, all with one key, have a record each.
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
    format!("Bearer e30.{}.signature", base64url(claims.as_bytes()))
}

/// The default: `Authorization`; all clients without it share a scope of their own.
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

/// The headers by which clients identify themselves besides `Authorization`, and the line that cures it.
const CREDENTIALS: [(&str, &str); 8] = [
    ("Cookie", "cookie:NAME"),
    ("X-Api-Key", "header:x-api-key"),
    ("Api-Key", "header:api-key"),
    ("X-Auth-Token", "header:x-auth-token"),
    ("Proxy-Authorization", "header:proxy-authorization"),
    ("Client-Cert", "header:client-cert"),
    ("X-Forwarded-Client-Cert", "header:x-forwarded-client-cert"),
    ("X-Ssl-Client-Cert", "header:x-ssl-client-cert"),
];

/// Trap 10: with the default configuration no client gets what another one was answered, however they
/// identify themselves.
#[test]
fn two_clients_with_other_credentials_never_share_an_answer() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).memory().start();
    for number in 0..1_000 {
        let (name, source) = CREDENTIALS[number % CREDENTIALS.len()];
        for client in ["alice", "bob"] {
            let call = Call::charge(&format!("k-{number}"));
            let answer = call.field(name, &format!("session={client}-{number}")).send(&gateway);
            answer.assert_problem(401, "idempotency_scope_missing", false);
            assert!(answer.text().contains(&format!("the header {name},")), "{}", answer.text());
            let line = format!(r#"scope = [\"auto\", \"{source}\"]"#);
            assert!(answer.text().contains(&line), "{}", answer.text());
            assert!(!answer.text().contains(client), "{}", answer.text());
        }
    }
    assert_eq!(upstream.count(), 0);
}

/// The line that the answer names.
#[test]
fn a_scope_that_names_the_credential_tells_clients_apart() {
    for (name, source) in CREDENTIALS {
        let upstream = Upstream::start();
        let source = source.replace("NAME", "session");
        let gateway = gateway(&upstream, &format!("[\"auto\", \"{source}\"]"));
        let by = |client: &str| Call::charge("k").field(name, &format!("session={client}"));
        assert_apart(&[by("alice"), by("bob"), Call::charge("k").from("a")], &gateway, &upstream);
        let field = name.to_lowercase();
        let seen = upstream.seen().iter().any(|seen| seen.header(&field).is_some());
        // That one is for proxies, and ends at the first.
        assert_eq!(seen, name != "Proxy-Authorization", "{name}");
    }
}

/// `cookie:NAME`: one cookie of many.
#[test]
fn a_key_belongs_to_a_cookie() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream, "[\"cookie:session\"]");
    let call = |cookies| Call::charge("k").field("Cookie", cookies);
    let calls = [call("session=alice; theme=dark"), call("session=bob; theme=dark")];
    assert_apart(&calls, &gateway, &upstream);
    assert!(call("theme=light; session=alice").send(&gateway).is_replay());
}

/// The log says at the start on which routes clients share a scope.
#[test]
fn the_log_names_the_routes_on_which_clients_are_anonymous() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream)
        .memory()
        .route("POST /strict", "on_missing_scope = \"reject\"")
        .route("POST /open", "")
        .route("POST /shared", "scope = [\"global\"]")
        .start();
    let line = |part: &str| {
        let find = || gateway.log().lines().find(|line| line.contains(part)).map(str::to_owned);
        eventually("a line in the log", find)
    };
    let anonymous = line("clients without a credential share one scope");
    assert!(anonymous.contains("POST /open") && !anonymous.contains("/strict"), "{anonymous}");
    assert!(!anonymous.contains("/shared"), "{anonymous}");
    let global = line("all clients share one scope");
    assert!(global.contains("POST /shared") && !global.contains("POST /open"), "{global}");
}

/// An empty value says nothing: its client shares the scope of clients without one.
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

/// Trap 10: clients with other credentials than a token that has the claim would share one scope.
#[test]
fn a_credential_without_the_claim_is_never_anonymous() {
    for on_missing in ["anonymous", "reject"] {
        let upstream = Upstream::start();
        let policy = format!("scope = [\"jwt:sub\"]\non_missing_scope = \"{on_missing}\"");
        let gateway = Setup::before(&upstream).memory().policy(&policy).start();
        for credential in
            [&token(r#"{"name":"alice"}"#), "Bearer a.b.c", "Bearer opaque", "Basic YTpi"]
        {
            let answer = Call::charge("k").from(credential).send(&gateway);
            answer.assert_problem(401, "idempotency_scope_missing", false);
        }
        let twice = token(r#"{"sub":"alice"}"#);
        let answer = Call::charge("k").from(&twice).field("Authorization", &twice).send(&gateway);
        answer.assert_problem(401, "idempotency_scope_missing", false);
        assert_eq!(upstream.count(), 0);
        let without = Call::charge("k").send(&gateway);
        assert_eq!(without.status, if on_missing == "anonymous" { 201 } else { 401 });
    }
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
