//! What a status says about the outcome: kept and replayed, released, or unknown.

use crate::support::{Answer, Call, Gateway, Reply, Setup, Upstream};

const KEPT: [u16; 10] = [200, 201, 202, 204, 302, 400, 402, 404, 409, 422];
const RELEASED: [u16; 3] = [408, 425, 429];
const SERVER_ERRORS: [u16; 4] = [500, 502, 503, 599];

fn replying_by_key() -> Upstream {
    Upstream::with(|seen| {
        let status = seen.key().and_then(|key| key.rsplit('-').next()).unwrap_or("0");
        Reply::new(status.parse().expect("a status"), format!("execution {}", seen.execution))
    })
}

/// Replies of these statuses are kept, and these are released.
fn assert_outcomes(policy: &str, kept: &[u16], released: &[u16]) {
    let upstream = replying_by_key();
    let gateway = Setup::before(&upstream).policy(policy).start();
    let replayed = |status: u16| {
        let call = Call::charge(&format!("status-{status}"));
        let (first, second) = (call.send(&gateway), call.send(&gateway));
        assert_eq!((first.status, second.status), (status, status), "{}", second.text());
        let expires = first.header("x-idempotency-expires");
        let replayed = upstream.executions(&format!("status-{status}")) == 1;
        assert_eq!(expires.is_some(), replayed, "{status}: only what is kept expires");
        assert_eq!(second.header("x-idempotency-expires"), expires);
        let body = if status == 204 { "" } else { "execution 1" };
        assert!(!replayed || second.text() == body, "{}", second.text());
        replayed
    };
    for status in kept {
        assert!(replayed(*status), "{status} was not kept under {policy:?}");
    }
    for status in released {
        assert!(!replayed(*status), "{status} was kept under {policy:?}");
    }
}

#[test]
fn classic_stores_final_outcomes() {
    assert_outcomes("", &KEPT, &[&RELEASED[..], &SERVER_ERRORS].concat());
}

#[test]
fn ietf_keeps_the_same() {
    assert_outcomes("profile = \"ietf\"", &KEPT, &[&RELEASED[..], &SERVER_ERRORS].concat());
}

/// Trap 22: Stripe documents that also errors of the server are kept.
#[test]
fn stripe_keeps_errors_of_the_server_too() {
    assert_outcomes("profile = \"stripe\"", &[&KEPT[..], &SERVER_ERRORS].concat(), &RELEASED);
}

/// `release_statuses`.
#[test]
fn released_statuses_can_be_chosen() {
    let policy = "release_statuses = [\"404\", \"5xx\"]";
    assert_outcomes(policy, &[200, 400, 408, 429], &[404, 500, 503]);
}

/// A release is followed by a new execution with the same key and a higher fence, until an outcome
/// is kept.
#[test]
fn a_released_key_executes_until_an_outcome_is_kept() {
    let upstream = Upstream::with(|seen| match seen.execution {
        1 | 2 => Reply::new(503, "later").field("Retry-After", "7"),
        number => Reply::new(201, format!("execution {number}")),
    });
    let gateway = Setup::before(&upstream).start();
    let statuses: Vec<_> = (0..5).map(|_| Call::charge("k").send(&gateway).status).collect();
    assert_eq!(statuses, [503, 503, 201, 201, 201]);
    assert_eq!(upstream.fences("k"), [1, 2, 3]);
}

/// A released reply reaches its own client as it is.
#[test]
fn a_released_reply_is_passed_on_whole() {
    let upstream = Upstream::with(|_| Reply::new(429, "slow down").field("Retry-After", "7"));
    let gateway = Setup::before(&upstream).start();
    let answer = Call::charge("k").send(&gateway);
    assert_eq!((answer.status, answer.text()), (429, "slow down".to_owned()));
    assert_eq!(answer.header("retry-after"), Some("7"));
    assert_eq!(answer.header("x-idempotency-stored"), None);
}

fn attempt(gateway: &Gateway, status: u16) -> Answer {
    Call::charge(&format!("status-{status}")).from("Bearer alice").send(gateway)
}

/// Preset `payments`: 500, 502 and 504 are Unknown. The client of the execution gets the upstream's own
/// answer, a retry is held.
#[test]
fn payments_hold_unknown_outcomes_of_server_errors() {
    let upstream = replying_by_key();
    let gateway = Setup::before(&upstream).policy("preset = \"payments\"").start();
    for status in [500, 502, 504] {
        let first = attempt(&gateway, status);
        assert_eq!((first.status, first.text()), (status, "execution 1".into()));
        assert_eq!(first.header("x-idempotency-expires"), None);
        for _ in 0..2 {
            attempt(&gateway, status).assert_problem(409, "outcome_unknown", true);
        }
        assert_eq!(upstream.executions(&format!("status-{status}")), 1);
    }
    for status in [408, 425, 429, 501, 503] {
        assert_eq!(
            (attempt(&gateway, status).status, attempt(&gateway, status).status),
            (status, status)
        );
        assert_eq!(upstream.executions(&format!("status-{status}")), 2);
    }
    let metrics = gateway.metrics();
    assert_eq!(metrics.find("semel_unknown_released_total", &[]), Some(0.0));
}

/// `unknown_statuses` under `on_unknown = "release"`: a retry executes again, which is counted and logged as a
/// warning with the record.
#[test]
fn an_unknown_outcome_is_released_with_a_warning() {
    let upstream = replying_by_key();
    let policy = "unknown_statuses = [\"502\"]";
    let gateway = Setup::before(&upstream).top("log = \"warn\"").policy(policy).start();
    for (status, executions) in [(502, 2), (503, 2)] {
        assert_eq!(
            (attempt(&gateway, status).status, attempt(&gateway, status).status),
            (status, status)
        );
        assert_eq!(upstream.executions(&format!("status-{status}")), executions);
    }
    let metrics = gateway.metrics();
    assert_eq!(metrics.find("semel_unknown_released_total", &[("route", "*")]), Some(2.0));
    let (_, log) = gateway.terminate();
    let warnings: Vec<_> =
        log.lines().filter(|line| line.contains("the outcome is unknown")).collect();
    for (line, fence) in warnings.iter().zip(["fence=1", "fence=2"]) {
        assert!(
            line.contains("WARN") && line.contains("record=\"") && line.contains(fence),
            "{line}"
        );
    }
    // The second one of a second is counted.
    let rest = "of=\"unknown outcome released\" left_out=1";
    assert!(warnings.len() == 2 || (warnings.len() == 1 && log.contains(rest)), "{log}");
}
