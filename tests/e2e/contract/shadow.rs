//! Shadow mode: look before you leap. Nothing is refused or replayed; all is counted.

use crate::support::{Call, Gateway, Reply, Setup, Upstream, eventually};

const SHADOW: &str = "mode = \"shadow\"";

fn wait_for(gateway: &Gateway, decision: &str, count: f64) {
    eventually(decision, || {
        let labels = [("decision", decision), ("mode", "shadow")];
        let counted = gateway.metrics().find("semel_attempts_total", &labels);
        (counted == Some(count)).then_some(())
    });
}

#[test]
fn duplicates_and_mismatches_pass_and_are_counted() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).policy(SHADOW).start();
    for number in 1..=3 {
        let answer = Call::charge("k").send(&gateway);
        assert_eq!((answer.status, answer.text()), (201, format!(r#"{{"charge":{number}}}"#)));
        assert!(!answer.is_replay());
        assert_eq!(answer.header("x-idempotency-expires"), None);
        // The look is aside; the next attempt must find it done.
        wait_for(&gateway, "first", 1.0);
        wait_for(&gateway, "duplicate", f64::from(number - 1));
    }
    assert_eq!(Call::charge("k").json("{}").send(&gateway).status, 201);
    wait_for(&gateway, "mismatch", 1.0);
    assert_eq!(upstream.count(), 4);
}

#[test]
fn missing_and_malformed_keys_pass_and_are_counted() {
    let upstream = Upstream::start();
    let policy = "mode = \"shadow\"\nmax_request_body = \"1KiB\"";
    let gateway = Setup::before(&upstream).policy(policy).start();
    assert_eq!(Call::new("POST", "/a").send(&gateway).status, 201);
    assert_eq!(Call::charge("two words").send(&gateway).status, 201);
    let large = Call::charge("large").body(&[b'x'; 5_000]).send(&gateway);
    assert_eq!(large.status, 201);
    wait_for(&gateway, "key_missing", 1.0);
    wait_for(&gateway, "key_invalid", 1.0);
    wait_for(&gateway, "body_too_large", 1.0);
    let seen = upstream.seen();
    assert_eq!((seen.len(), seen[2].body.len()), (3, 5_000));
    assert_eq!(seen[1].key(), Some("two words"));
}

#[test]
fn clients_without_identity_pass_and_are_counted() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream)
        .route("POST /v1/charges", "preset = \"payments\"\nmode = \"shadow\"")
        .start();
    assert_eq!(Call::charge("k").send(&gateway).status, 201);
    wait_for(&gateway, "scope_missing", 1.0);
}

/// A credential that the default scope does not know, and a path that servers read differently.
#[test]
fn requests_that_would_be_refused_pass_and_are_counted() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).policy(SHADOW).start();
    assert_eq!(Call::charge("k").field("Cookie", "session=1").send(&gateway).status, 201);
    wait_for(&gateway, "scope_missing", 1.0);
    assert_eq!(Call::new("POST", "/v1%2Fcharges").key("k").send(&gateway).status, 201);
    wait_for(&gateway, "refused", 1.0);
    assert_eq!(upstream.count(), 2);
}

/// A duplicate that would be refused as in flight passes too.
#[test]
fn concurrent_duplicates_pass() {
    let (gate, upstream) = Upstream::gated(|_| Reply::created("{}"));
    let gateway = Setup::before(&upstream).policy(SHADOW).start();
    let both = [Call::charge("k").begin(&gateway), Call::charge("k").begin(&gateway)];
    gate.wait_for(2);
    gate.open();
    for answer in both {
        assert_eq!(answer.answer().status, 201);
    }
}

/// A shadow record has no reply to replay: protection starts without records.
#[test]
fn protection_does_not_replay_shadow_attempts() {
    let upstream = Upstream::start();
    let setup = Setup::before(&upstream);
    let gateway = setup.clone().policy(SHADOW).start();
    assert_eq!(Call::charge("k").send(&gateway).status, 201);
    wait_for(&gateway, "first", 1.0);
    gateway.kill();
    let gateway = setup.start();
    let first = Call::charge("k").send(&gateway);
    assert_eq!((first.is_replay(), first.text().as_str()), (false, r#"{"charge":2}"#));
    assert_eq!(Call::charge("k").send(&gateway).text(), r#"{"charge":2}"#);
}
