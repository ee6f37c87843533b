//! "What a crash means" (README): `kill -9` at each moment, and a restart on the same
//! store.

use crate::support::{Answer, Call, Gateway, Reply, Setup, Upstream, eventually};

const REEXECUTE: &str = "lease = \"400ms\"\non_abandoned = \"reexecute\"";
const HOLD: &str = "lease = \"400ms\"\non_abandoned = \"hold\"";

/// Retries as a client would, while the first attempt is in progress.
fn retry(call: &Call, gateway: &Gateway) -> Answer {
    eventually("the lease of the dead runs out", || {
        let answer = call.send(gateway);
        let is_running = answer.code().as_deref() == Some("request_in_progress");
        (!is_running).then_some(answer)
    })
}

/// Killed while the request's body is on its way.
fn killed_before_the_claim(policy: &str) {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).policy(policy).start();
    let call = Call::charge("k-1");
    let half = call.begin_in_part(&gateway, 5);
    eventually("the gateway has the request", || {
        (gateway.metrics().find("semel_connections", &[]) == Some(1.0)).then_some(())
    });
    let gateway = gateway.kill().start();
    assert!(half.try_answer().is_err());
    assert_eq!(call.send(&gateway).status, 201);
    assert_eq!(upstream.fences("k-1"), [1]);
}

/// Row "before the claim is durable".
#[test]
fn before_the_claim_a_retry_executes_once() {
    killed_before_the_claim(REEXECUTE);
}

/// Row "before the claim is durable", hold.
#[test]
fn before_the_claim_a_retry_executes_once_also_if_held() {
    killed_before_the_claim(HOLD);
}

/// Killed while the upstream works. The second execution, if any, answers at once.
fn killed_during_execution(policy: &str) -> (Upstream, Gateway) {
    let (gate, upstream) = Upstream::first_gated();
    let gateway = Setup::before(&upstream).policy(policy).start();
    let first = Call::charge("k-1").begin(&gateway);
    gate.wait_for(1);
    let setup = gateway.kill();
    assert!(first.try_answer().is_err(), "a dead gateway answered");
    gate.open();
    (upstream, setup.start())
}

/// Row "after claim, before or during execution". Trap 5: the key is free again after a lease, not
/// after 24 hours.
#[test]
fn during_execution_a_retry_executes_again_after_the_lease() {
    let (upstream, gateway) = killed_during_execution(REEXECUTE);
    let answer = retry(&Call::charge("k-1"), &gateway);
    assert_eq!((answer.status, answer.text()), (201, r#"{"execution":2}"#.to_owned()));
    assert!(Call::charge("k-1").send(&gateway).is_replay());
    assert_eq!(upstream.fences("k-1"), [1, 2], "the upstream cannot tell which is newer");
}

/// I5: the claim was durable before the upstream saw anything. And it is honoured as long as it lasts
/// (I1): the dead holder is not known yet.
#[test]
fn during_the_lease_of_the_dead_a_retry_is_in_progress() {
    let policy = "lease = \"1h\"\nttl = \"24h\"\non_abandoned = \"reexecute\"";
    let (upstream, gateway) = killed_during_execution(policy);
    Call::charge("k-1").send(&gateway).assert_problem(409, "request_in_progress", true);
    assert_eq!(upstream.count(), 1);
}

/// Row "after claim, before or during execution", hold, and row "abandoned and held": for as long as
/// it is not resolved.
#[test]
fn a_retry_after_a_crash_during_execution_gets_outcome_unknown() {
    let (upstream, gateway) = killed_during_execution(HOLD);
    let answer = retry(&Call::charge("k-1"), &gateway);
    answer.assert_problem(409, "outcome_unknown", true);
    let gateway = gateway.kill().start();
    for _ in 0..3 {
        let answer = Call::charge("k-1").send(&gateway);
        answer.assert_problem(409, "outcome_unknown", true);
    }
    let other = Call::charge("k-1").json("{}").send(&gateway);
    other.assert_problem(409, "idempotency_payload_mismatch", false);
    assert_eq!(upstream.count(), 1, "a held key was executed again");
}

/// Killed when the work is done and its reply half here: the upstream has sent all but the end.
fn killed_before_settling(policy: &str) -> (Upstream, Gateway) {
    let upstream = Upstream::with(|seen| match seen.execution {
        1 => Reply::Stalls(64 << 10, vec![b'x'; 32 << 10]),
        _ => Reply::created(r#"{"execution":2}"#),
    });
    let gateway = Setup::before(&upstream).policy(policy).start();
    let first = Call::charge("k-1").begin(&gateway);
    eventually("the work is executed", || (upstream.count() == 1).then_some(()));
    let setup = gateway.kill();
    assert!(first.try_answer().is_err(), "an outcome was seen before it was durable (I6)");
    (upstream, setup.start())
}

/// Row "after execution, before settle": may execute twice, with the same key and a higher fence.
#[test]
fn after_execution_it_may_execute_twice_with_a_higher_fence() {
    let (upstream, gateway) = killed_before_settling(REEXECUTE);
    assert_eq!(retry(&Call::charge("k-1"), &gateway).status, 201);
    let seen = upstream.seen();
    let keys: Vec<_> = seen.iter().map(|seen| seen.key()).collect();
    assert_eq!(keys, [Some("k-1"), Some("k-1")]);
    assert_eq!(seen[0].body, seen[1].body);
    assert_eq!(upstream.fences("k-1"), [1, 2]);
}

/// Row "after execution, before settle", hold: never twice.
#[test]
fn after_execution_a_held_key_is_never_executed_twice() {
    let (upstream, gateway) = killed_before_settling(HOLD);
    let answer = retry(&Call::charge("k-1"), &gateway);
    answer.assert_problem(409, "outcome_unknown", true);
    assert_eq!(upstream.count(), 1);
}

/// Killed when the outcome is settled and the client has only the start of a long reply.
fn killed_before_the_reply(policy: &str) {
    let body: Vec<u8> = (0..8_u32 << 20).map(|at| (at ^ (at >> 7)).to_le_bytes()[0]).collect();
    let sent = body.clone();
    let upstream = Upstream::with(move |_| Reply::new(201, sent.clone()).field("X-Made", "once"));
    let gateway = Setup::before(&upstream).policy(policy).start();
    let first = Call::charge("k-1").begin(&gateway);
    eventually("the outcome is settled", || {
        (gateway.metrics().attempts("executed") >= 1.0).then_some(())
    });
    let gateway = gateway.kill().start();
    assert!(first.try_answer().is_err(), "all of it arrived; the reply is too short for this test");
    let replay = Call::charge("k-1").send(&gateway);
    assert!(replay.is_replay());
    assert_eq!((replay.status, replay.header("x-made")), (201, Some("once")));
    assert!(replay.body == body, "{} of {} bytes", replay.body.len(), body.len());
    assert_eq!(upstream.count(), 1);
}

/// Row "after settle, before the reply". Trap 4.
#[test]
fn after_settling_the_outcome_is_replayed() {
    killed_before_the_reply(REEXECUTE);
}

/// Row "after settle, before the reply", hold.
#[test]
fn after_settling_the_outcome_is_replayed_also_if_held() {
    killed_before_the_reply(HOLD);
}

/// I6, trap 4: an answer that a client has seen is durable, however soon the process dies.
#[test]
fn an_answer_that_was_seen_survives_a_kill() {
    let upstream = Upstream::start();
    let setup = Setup::before(&upstream);
    let mut seen = Vec::new();
    for round in 0..5 {
        let gateway = setup.clone().start();
        let call = Call::charge(&format!("k-{round}"));
        seen.push((call.clone(), call.send(&gateway)));
        gateway.kill();
    }
    let gateway = setup.start();
    for (call, first) in seen {
        let replay = call.send(&gateway);
        assert!(replay.is_replay());
        assert_eq!((replay.status, &replay.body), (first.status, &first.body));
        assert_eq!(replay.header("x-idempotency-expires"), first.header("x-idempotency-expires"));
    }
    assert_eq!(upstream.count(), 5);
}
