//! "What a crash means" (README) for a fleet: one dies, another takes over.

use std::thread;
use std::time::Duration;

use super::on_each_server;
use crate::support::{Call, Gateway, Server, Setup, Upstream, eventually};

on_each_server!(
    after_the_lease_of_the_dead_the_other_executes_again,
    after_the_lease_of_the_dead_the_other_holds,
    a_client_that_obeys_retry_after_outlasts_the_lease_of_the_dead,
    an_answer_that_was_seen_survives_the_death_of_the_server,
);

/// One of two gateways is killed while its upstream works; what the other answers when the lease has
/// run out is for the caller to see.
fn killed_in_mid_execution<S: Server>(policy: &str) -> (Upstream, Gateway) {
    let (gate, upstream) = Upstream::first_gated();
    let store = S::shared_store();
    let start = || Setup::before(&upstream).on(&store).policy(policy).start();
    let (one, other) = (start(), start());
    let first = Call::charge("k").begin(&one);
    gate.wait_for(1);
    Call::charge("k").send(&other).assert_problem(409, "request_in_progress", true);
    one.kill();
    assert!(first.try_answer().is_err(), "a dead gateway answered");
    gate.open();
    (upstream, other)
}

/// Row "after claim, before or during execution", reexecute.
fn after_the_lease_of_the_dead_the_other_executes_again<S: Server>() {
    let (upstream, other) =
        killed_in_mid_execution::<S>("lease = \"2s\"\non_abandoned = \"reexecute\"");
    let answer = eventually("the lease of the dead runs out", || {
        let answer = Call::charge("k").send(&other);
        (answer.status != 409).then_some(answer)
    });
    assert_eq!((answer.status, answer.text().as_str()), (201, r#"{"execution":2}"#));
    assert_eq!(upstream.fences("k"), [1, 2], "the upstream cannot tell which is newer");
}

/// Row "after claim, before or during execution", hold.
fn after_the_lease_of_the_dead_the_other_holds<S: Server>() {
    let (upstream, other) = killed_in_mid_execution::<S>("lease = \"2s\"\non_abandoned = \"hold\"");
    eventually("the lease of the dead runs out", || {
        let answer = Call::charge("k").send(&other);
        (answer.code().as_deref() == Some("outcome_unknown")).then_some(())
    });
    Call::charge("k").send(&other).assert_problem(409, "outcome_unknown", true);
    assert_eq!(upstream.count(), 1, "a held key was executed again");
}

/// Row "first attempt still running", `Retry-After`: for a dead holder the seconds until its lease ends. The
/// story: it was always 1, and a client that gave up after a few tries never saw the end of the lease.
fn a_client_that_obeys_retry_after_outlasts_the_lease_of_the_dead<S: Server>() {
    let policy = "lease = \"9s\"\non_abandoned = \"reexecute\"";
    let (upstream, other) = killed_in_mid_execution::<S>(policy);
    let mut waits = Vec::new();
    let answer = loop {
        let answer = Call::charge("k").send(&other);
        if answer.code().as_deref() != Some("request_in_progress") {
            break answer;
        }
        let seconds = answer.retry_after().expect("a time to wait");
        assert!((1..=10).contains(&seconds), "{seconds} s");
        waits.push(seconds);
        assert!(waits.len() <= 6, "Retry-After: {waits:?} s");
        thread::sleep(Duration::from_secs(seconds));
    };
    assert_eq!((answer.status, answer.text().as_str()), (201, r#"{"execution":2}"#));
    assert!(waits.iter().any(|seconds| *seconds > 1), "{waits:?}");
    assert_eq!(upstream.fences("k"), [1, 2]);
}

/// I6: what a client has seen is durable, however soon the server dies.
fn an_answer_that_was_seen_survives_the_death_of_the_server<S: Server>() {
    let server = S::start();
    let upstream = Upstream::start();
    // Without a memory of its own, so that only the server can know.
    let setup = Setup::before(&upstream).on(&server.store()).limits("cache_bytes = 0");
    let gateway = setup.start();
    let mut seen = Vec::new();
    for round in 0..3 {
        for number in 0..5 {
            let call = Call::charge(&format!("k-{round}-{number}"));
            let answer = eventually("an answer", || {
                let answer = call.send(&gateway);
                (answer.status != 503).then_some(answer)
            });
            seen.push((call, answer));
        }
        server.kill();
        server.start_again();
    }
    for (call, first) in seen {
        let replay = eventually("the server is back", || {
            let answer = call.send(&gateway);
            (answer.status != 503).then_some(answer)
        });
        assert!(replay.is_replay());
        assert_eq!((replay.status, replay.body), (first.status, first.body));
    }
    assert_eq!(upstream.count(), 15);
}
