//! Duplicates while the first attempt runs.

use crate::support::{Answer, Call, Gate, Reply, Setup, Upstream, eventually};

struct Held {
    gate: Gate,
    upstream: Upstream,
}

fn held() -> Held {
    let (gate, upstream) =
        Upstream::gated(|seen| Reply::created(&format!(r#"{{"charge":{}}}"#, seen.number)));
    Held { gate, upstream }
}

fn assert_in_progress(answer: &Answer, status: u16) {
    answer.assert_problem(status, "request_in_progress", true);
    assert!(answer.retry_after().is_some_and(|seconds| seconds >= 1));
}

/// Row "first attempt still running", `in_flight = "conflict"`, the default.
#[test]
fn a_duplicate_in_flight_is_a_conflict() {
    let Held { gate, upstream } = held();
    let gateway = Setup::before(&upstream).start();
    let first = Call::charge("k-1").begin(&gateway);
    gate.wait_for(1);
    assert_in_progress(&Call::charge("k-1").send(&gateway), 409);
    gate.open();
    assert_eq!(first.answer().status, 201);
    assert!(Call::charge("k-1").send(&gateway).is_replay());
    assert_eq!(upstream.count(), 1);
}

/// Row "… `in_flight = "accepted"`".
#[test]
fn a_duplicate_in_flight_may_be_accepted() {
    let Held { gate, upstream } = held();
    let gateway = Setup::before(&upstream).policy("in_flight = \"accepted\"").start();
    let first = Call::charge("k-1").begin(&gateway);
    gate.wait_for(1);
    assert_in_progress(&Call::charge("k-1").send(&gateway), 202);
    gate.open();
    assert_eq!(first.answer().status, 201);
    assert_eq!(upstream.count(), 1);
}

/// Row "… `in_flight = "wait"`": the answer, replayed.
#[test]
fn a_duplicate_may_wait_for_the_answer() {
    let Held { gate, upstream } = held();
    let gateway = Setup::before(&upstream).policy("in_flight = \"wait\"").start();
    let first = Call::charge("k-1").begin(&gateway);
    gate.wait_for(1);
    let duplicate = Call::charge("k-1").begin(&gateway);
    eventually("the duplicate waits", || {
        (gateway.metrics().find("semel_waiters", &[]) == Some(1.0)).then_some(())
    });
    gate.open();
    let (first, duplicate) = (first.answer(), duplicate.answer());
    assert!(!first.is_replay() && duplicate.is_replay());
    assert_eq!((first.status, &first.body), (duplicate.status, &duplicate.body));
    assert_eq!(upstream.count(), 1);
}

/// Row "… 409 as above after `wait_timeout`". Trap 8: the waiter that gave up left the claim alone.
#[test]
fn a_waiter_that_gives_up_leaves_the_claim_alone() {
    let Held { gate, upstream } = held();
    let policy = "in_flight = \"wait\"\nwait_timeout = \"100ms\"";
    let gateway = Setup::before(&upstream).policy(policy).start();
    let first = Call::charge("k-1").begin(&gateway);
    gate.wait_for(1);
    for _ in 0..3 {
        assert_in_progress(&Call::charge("k-1").send(&gateway), 409);
    }
    gate.open();
    let first = first.answer();
    assert_eq!((first.status, first.is_replay()), (201, false));
    assert!(Call::charge("k-1").send(&gateway).is_replay());
    assert_eq!(upstream.count(), 1);
}

/// Trap 8: nor does a waiter whose client hangs up touch it.
#[test]
fn a_waiter_that_hangs_up_leaves_the_claim_alone() {
    let Held { gate, upstream } = held();
    let gateway = Setup::before(&upstream).policy("in_flight = \"wait\"").start();
    let waiters = |count: f64| {
        eventually("so many wait", || {
            (gateway.metrics().find("semel_waiters", &[]) == Some(count)).then_some(())
        });
    };
    let first = Call::charge("k-1").begin(&gateway);
    gate.wait_for(1);
    let duplicate = Call::charge("k-1").begin(&gateway);
    waiters(1.0);
    drop(duplicate);
    waiters(0.0);
    gate.open();
    assert_eq!(first.answer().status, 201);
    assert!(Call::charge("k-1").send(&gateway).is_replay());
    assert_eq!(upstream.count(), 1);
}

/// Trap 17: the lease of a slow execution is renewed, so it is not taken over. Trap 5: the lease
/// is much shorter than the record's life.
#[test]
fn a_slow_execution_keeps_its_lease() {
    let Held { gate, upstream } = held();
    let gateway = Setup::before(&upstream).policy("lease = \"150ms\"").start();
    let first = Call::charge("k-1").begin(&gateway);
    gate.wait_for(1);
    let renewed = || {
        let labels = [("verb", "renew"), ("answer", "renewed")];
        gateway.metrics().find("semel_store_answers_total", &labels).unwrap_or(0.0)
    };
    // Six renewals at a third of the lease: twice its time has passed.
    eventually("the lease is renewed", || {
        assert_in_progress(&Call::charge("k-1").send(&gateway), 409);
        (renewed() >= 6.0).then_some(())
    });
    gate.open();
    assert_eq!(first.answer().status, 201);
    assert_eq!(upstream.fences("k-1"), [1]);
}
