//! The same key with another request (I8).

use crate::support::{Call, Gate, Reply, Setup, Upstream};

fn mismatch_under(profile: &str) -> (u16, u16) {
    let upstream = Upstream::start();
    let policy = format!("profile = \"{profile}\"");
    let gateway = Setup::before(&upstream).memory().policy(&policy).start();
    let first = Call::charge("k-1").send(&gateway);
    let other = Call::charge("k-1").json(r#"{"amount":999}"#).send(&gateway);
    other.assert_problem(other.status, "idempotency_payload_mismatch", false);
    assert_eq!(other.retry_after(), None, "a retry of this can never succeed");
    assert_eq!(upstream.count(), 1);
    let again = Call::charge("k-1").send(&gateway);
    assert_eq!(again.body, first.body, "the mismatch changed the record");
    (first.status, other.status)
}

/// Row "same key, other request".
#[test]
fn another_request_with_the_key_is_a_conflict() {
    assert_eq!(mismatch_under("classic"), (201, 409));
}

/// Row "same key, other request", profile ietf.
#[test]
fn another_request_with_the_key_is_unprocessable_by_the_draft() {
    assert_eq!(mismatch_under("ietf"), (201, 422));
}

/// Row "same key, other request", profile stripe.
#[test]
fn another_request_with_the_key_is_a_bad_request_at_stripe() {
    assert_eq!(mismatch_under("stripe"), (201, 400));
}

/// Every choice of a profile can still be set alone.
#[test]
fn the_status_of_a_mismatch_can_be_chosen() {
    let upstream = Upstream::start();
    let policy = "profile = \"ietf\"\nmismatch_status = 418";
    let gateway = Setup::before(&upstream).memory().policy(policy).start();
    Call::charge("k-1").send(&gateway);
    let other = Call::charge("k-1").json("{}").send(&gateway);
    other.assert_problem(418, "idempotency_payload_mismatch", false);
}

/// Trap 9: fingerprints are compared while the first attempt runs, whatever `in_flight` says.
#[test]
fn a_mismatch_is_refused_while_the_first_attempt_runs() {
    for in_flight in ["conflict", "accepted", "wait"] {
        let gate = Gate::default();
        let held = gate.clone();
        let upstream = Upstream::with(move |_| {
            held.pass();
            Reply::created("{}")
        });
        let policy = format!("in_flight = \"{in_flight}\"");
        let gateway = Setup::before(&upstream).memory().policy(&policy).start();
        let first = Call::charge("k-1").begin(&gateway);
        gate.wait_for(1);
        let other = Call::charge("k-1").json(r#"{"amount":1}"#).send(&gateway);
        other.assert_problem(409, "idempotency_payload_mismatch", false);
        assert_eq!(other.retry_after(), None);
        gate.open();
        assert_eq!(first.answer().status, 201);
        assert_eq!(upstream.count(), 1, "{in_flight}");
    }
}

/// Trap 9: and after the key was released.
#[test]
fn a_mismatch_is_refused_after_a_release() {
    let upstream = Upstream::with(|_| Reply::new(503, "later"));
    let gateway = Setup::before(&upstream).start();
    assert_eq!(Call::charge("k-1").send(&gateway).status, 503);
    let other = Call::charge("k-1").json("{}").send(&gateway);
    other.assert_problem(409, "idempotency_payload_mismatch", false);
    assert_eq!(upstream.count(), 1);
}

/// Trap 7, I2: neither the 409 of a duplicate nor that of a mismatch is ever the outcome.
#[test]
fn the_rejection_of_a_duplicate_is_never_the_outcome() {
    let gate = Gate::default();
    let held = gate.clone();
    let upstream = Upstream::with(move |_| {
        held.pass();
        Reply::created(r#"{"real":"answer"}"#)
    });
    let gateway = Setup::before(&upstream).start();
    let first = Call::charge("k-1").begin(&gateway);
    gate.wait_for(1);
    assert_eq!(Call::charge("k-1").send(&gateway).status, 409);
    assert_eq!(Call::charge("k-1").json("{}").send(&gateway).status, 409);
    gate.open();
    let first = first.answer();
    let replay = Call::charge("k-1").send(&gateway);
    assert!(replay.is_replay());
    for answer in [first, replay] {
        assert_eq!((answer.status, answer.text()), (201, r#"{"real":"answer"}"#.to_owned()));
    }
}
