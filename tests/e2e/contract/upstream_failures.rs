//! Upstreams that are gone, too slow, or break off.

use crate::support::{Answer, Call, Reply, Setup, Upstream};

/// What a first and a second attempt get if the upstream fails the first time, and the fences of
/// the executions.
fn failing(first: Reply, policy: &str) -> (Answer, Answer, Vec<u64>) {
    let upstream = Upstream::with(move |seen| match seen.execution {
        1 => first.clone(),
        _ => Reply::created(r#"{"execution":2}"#),
    });
    let gateway = Setup::before(&upstream).policy(policy).start();
    let first = Call::charge("k-1").send(&gateway);
    let second = Call::charge("k-1").send(&gateway);
    (first, second, upstream.fences("k-1"))
}

fn assert_executed_again(second: &Answer, fences: &[u64]) {
    assert_eq!((second.status, second.is_replay()), (201, false), "{}", second.text());
    assert_eq!(fences, [1, 2]);
}

fn assert_held(second: &Answer, fences: &[u64]) {
    second.assert_problem(409, "outcome_unknown", true);
    assert_eq!(fences, [1], "a held key was executed again");
}

const RELEASE: &str = "on_unknown = \"release\"\nupstream_timeout = \"1500ms\"";
const HOLD: &str = "on_unknown = \"hold\"\nupstream_timeout = \"1500ms\"";

/// Row "upstream unreachable": surely nothing happened, so the key is released, whatever
/// `on_unknown` says.
#[test]
fn an_unreachable_upstream_releases_the_key() {
    for (last, policy) in [(1, RELEASE), (2, HOLD)] {
        let address = Upstream::absent(last);
        let gateway = Setup::before_address(address).policy(policy).start();
        let answer = Call::charge("k-1").send(&gateway);
        answer.assert_problem(502, "upstream_unreachable", true);
        let upstream = Upstream::at(address, |_| Reply::created("{}"));
        let answer = Call::charge("k-1").send(&gateway);
        assert_eq!((answer.status, answer.is_replay()), (201, false));
        assert_eq!(upstream.fences("k-1"), [2]);
    }
}

/// Row "upstream too slow", `on_unknown = "release"`.
#[test]
fn a_slow_upstream_releases_the_key() {
    let (first, second, fences) = failing(Reply::Hangs, RELEASE);
    first.assert_problem(504, "upstream_timeout", true);
    assert_executed_again(&second, &fences);
}

/// Row "upstream too slow", `on_unknown = "hold"`. Trap 6.
#[test]
fn a_slow_upstream_holds_the_key_if_asked() {
    let (first, second, fences) = failing(Reply::Hangs, HOLD);
    first.assert_problem(504, "upstream_timeout", true);
    assert_held(&second, &fences);
}

/// Connection lost after the request went out, `on_unknown = "release"`.
#[test]
fn a_lost_connection_releases_the_key() {
    let (first, second, fences) = failing(Reply::Closes, RELEASE);
    first.assert_problem(502, "upstream_unreachable", true);
    assert_executed_again(&second, &fences);
}

/// Connection lost after the request went out, `on_unknown = "hold"`. Trap 6.
#[test]
fn a_lost_connection_holds_the_key_if_asked() {
    let (first, second, fences) = failing(Reply::Closes, HOLD);
    first.assert_problem(502, "upstream_unreachable", true);
    assert_held(&second, &fences);
}

/// The preset for payments holds.
#[test]
fn a_lost_connection_holds_a_payment() {
    let upstream = Upstream::with(|_| Reply::Closes);
    let gateway = Setup::before(&upstream).route("POST /pay", "preset = \"payments\"").start();
    let pay = Call::new("POST", "/pay").key("k-1").from("Bearer alice").json("{}");
    assert_eq!(pay.send(&gateway).status, 502);
    pay.send(&gateway).assert_problem(409, "outcome_unknown", true);
    assert_eq!(upstream.count(), 1);
}

/// A reply that breaks off is no outcome: half a reply is never kept or shown.
#[test]
fn a_reply_that_breaks_off_is_not_kept() {
    let half = Reply::BreaksOff(1_000, vec![b'x'; 10]);
    let (first, second, fences) = failing(half.clone(), RELEASE);
    first.assert_problem(502, "upstream_unreachable", true);
    assert_executed_again(&second, &fences);
    let (first, second, fences) = failing(half, HOLD);
    first.assert_problem(502, "upstream_unreachable", true);
    assert_held(&second, &fences);
}

/// Nor one that stops coming.
#[test]
fn a_reply_that_stalls_is_not_kept() {
    let half = Reply::Stalls(1_000, vec![b'x'; 10]);
    let (first, second, fences) = failing(half.clone(), RELEASE);
    first.assert_problem(504, "upstream_timeout", true);
    assert_executed_again(&second, &fences);
    let (first, second, fences) = failing(half, HOLD);
    first.assert_problem(504, "upstream_timeout", true);
    assert_held(&second, &fences);
}

/// What has been sent is never sent again by the gateway itself, also if the connection was an old
/// one that it might take for a stale one.
#[test]
fn the_gateway_does_not_retry_a_sent_request() {
    let upstream = Upstream::with(|seen| match seen.number {
        1 | 2 => Reply::created("{}"),
        _ => Reply::Closes,
    });
    let gateway = Setup::before(&upstream).top("workers = 1").start();
    for key in ["warm-1", "warm-2"] {
        assert_eq!(Call::charge(key).send(&gateway).status, 201);
    }
    assert_eq!(Call::charge("k-1").send(&gateway).status, 502);
    assert_eq!(upstream.executions("k-1"), 1);
}

/// Requests that are passed on without protection get the same answers.
#[test]
fn failures_are_reported_the_same_without_a_key() {
    let upstream = Upstream::with(|seen| match seen.target.as_str() {
        "/slow" => Reply::Hangs,
        _ => Reply::Closes,
    });
    let gateway = Setup::before(&upstream).policy(RELEASE).start();
    let slow = Call::new("GET", "/slow").send(&gateway);
    slow.assert_problem(504, "upstream_timeout", true);
    let lost = Call::new("GET", "/lost").send(&gateway);
    lost.assert_problem(502, "upstream_unreachable", true);
}

/// `retry_safe`: what may have been executed may be tried again only if it is protected, or asks.
#[test]
fn a_retry_is_called_safe_only_where_it_is() {
    let upstream = Upstream::with(|seen| match seen.target.rsplit('/').next() {
        Some("slow") => Reply::Hangs,
        _ => Reply::Closes,
    });
    let gateway = Setup::before(&upstream)
        .memory()
        .policy("upstream_timeout = \"500ms\"")
        .route("* /off/{failure}", "mode = \"off\"")
        .route("* /shadow/{failure}", "mode = \"shadow\"")
        .start();
    for (status, code, failure) in
        [(504, "upstream_timeout", "slow"), (502, "upstream_unreachable", "lost")]
    {
        let assert_reported = |method, mode, retry_safe| {
            let call = Call::new(method, &format!("/{mode}/{failure}")).key("k");
            // Only a fence of the gateway itself would make it protected.
            let call = call.field("Idempotency-Fence", "7");
            call.send(&gateway).assert_problem(status, code, retry_safe);
        };
        assert_reported("POST", "off", false);
        assert_reported("POST", "shadow", false);
        assert_reported("POST", "on", true);
        assert_reported("GET", "off", true);
    }
}

/// What was never sent was never executed.
#[test]
fn a_retry_is_safe_if_nothing_was_sent() {
    let gateway =
        Setup::before_address(Upstream::absent(3)).memory().policy("mode = \"off\"").start();
    for method in ["POST", "GET"] {
        let answer = Call::new(method, "/").send(&gateway);
        answer.assert_problem(502, "upstream_unreachable", true);
    }
}
