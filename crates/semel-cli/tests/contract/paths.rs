//! However a path is spelled, it does not get around its route.

use crate::support::{Call, Gateway, Setup, Upstream};

const SPELLINGS: [&str; 6] = [
    "/v1/charges",
    "/v1/charges/",
    "/v1//charges",
    "/v1/./charges",
    "/v1/%63harges",
    "/v1/x/../charges",
];

/// Protects one route only.
fn gateway(upstream: &Upstream) -> Gateway {
    let setup = Setup::before(upstream).memory().policy("mode = \"off\"");
    setup.route("POST /v1/charges", "mode = \"protect\"").start()
}

#[test]
fn no_spelling_of_a_path_gets_around_its_route() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream);
    for path in SPELLINGS {
        let answer = Call::new("POST", path).json("{}").send(&gateway);
        answer.assert_problem(400, "idempotency_key_missing", false);
    }
    assert_eq!(upstream.count(), 0);
    assert_eq!(Call::new("POST", "/v1/refunds").send(&gateway).status, 201);
}

#[test]
fn the_upstream_sees_the_path_as_it_was_sent() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream);
    for (number, path) in SPELLINGS.into_iter().enumerate() {
        let call = Call::new("POST", path).key(&format!("k-{number}")).json("{}");
        assert_eq!(call.send(&gateway).status, 201, "{path}");
        assert!(call.send(&gateway).is_replay(), "{path}");
    }
    let targets: Vec<_> = upstream.seen().into_iter().map(|seen| seen.target).collect();
    assert_eq!(targets, SPELLINGS);
}

/// Some servers take them for one path, some for two: neither a second execution nor another's
/// answer.
#[test]
fn a_key_with_another_spelling_of_its_path_is_a_mismatch() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream);
    let call = |path| Call::new("POST", path).key("k").json("{}").send(&gateway);
    assert_eq!(call(SPELLINGS[0]).status, 201);
    for path in &SPELLINGS[1..] {
        call(path).assert_problem(409, "idempotency_payload_mismatch", false);
    }
    assert_eq!(upstream.count(), 1);
}
