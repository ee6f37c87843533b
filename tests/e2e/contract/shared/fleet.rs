//! Two gateways, one store: to clients they are one.

use std::collections::BTreeSet;

use super::on_each_server;
use crate::support::{Answer, Call, Gateway, Reply, Server, Setup, Upstream, at_once, eventually};

on_each_server!(
    one_gateway_replays_what_the_other_executed,
    another_request_under_the_key_of_the_other_is_a_mismatch,
    a_duplicate_at_the_other_gateway_is_in_progress,
    a_waiter_at_one_gateway_gets_the_outcome_of_the_other,
    of_fifty_at_once_through_both_one_executes_and_all_get_its_answer,
    one_gateway_executes_a_key_that_the_other_released,
);

/// Two gateways before the same upstream, with the same policy.
fn pair<S: Server>(upstream: &Upstream, policy: &str) -> [Gateway; 2] {
    let store = S::shared_store();
    [(); 2].map(|()| Setup::before(upstream).on(&store).policy(policy).start())
}

/// I4: the other one replays status, headers and bytes.
fn one_gateway_replays_what_the_other_executed<S: Server>() {
    let upstream = Upstream::with(|_| {
        let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        Reply::new(201, bytes).field("X-Made", "once").field("Link", "<a>").field("Link", "<b>")
    });
    let [one, other] = pair::<S>(&upstream, "");
    let first = Call::charge("k").send(&one);
    assert_eq!((first.status, first.is_replay()), (201, false));
    for gateway in [&other, &one, &other] {
        let replay = Call::charge("k").send(gateway);
        assert!(replay.is_replay());
        assert_eq!((replay.status, &replay.body), (201, &first.body));
        assert_eq!(
            (replay.header("x-made"), replay.headers("link")),
            (Some("once"), vec!["<a>", "<b>"])
        );
        assert_eq!(replay.header("x-idempotency-expires"), first.header("x-idempotency-expires"));
    }
    assert_eq!(upstream.fences("k"), [1]);
}

/// I8, trap 9: settled or in flight elsewhere.
fn another_request_under_the_key_of_the_other_is_a_mismatch<S: Server>() {
    let (gate, upstream) = Upstream::gated(|_| Reply::created("{}"));
    let [one, other] = pair::<S>(&upstream, "");
    let running = Call::charge("k").begin(&one);
    gate.wait_for(1);
    let different = Call::charge("k").json(r#"{"amount":999}"#);
    different.send(&other).assert_problem(409, "idempotency_payload_mismatch", false);
    gate.open();
    assert_eq!(running.answer().status, 201);
    different.send(&other).assert_problem(409, "idempotency_payload_mismatch", false);
    assert_eq!(upstream.count(), 1);
}

/// I1: also for longer than a lease, since the one that works renews it.
fn a_duplicate_at_the_other_gateway_is_in_progress<S: Server>() {
    let (gate, upstream) = Upstream::gated(|_| Reply::created("{}"));
    let [one, other] = pair::<S>(&upstream, "lease = \"500ms\"");
    let running = Call::charge("k").begin(&one);
    gate.wait_for(1);
    eventually("three renewals", || {
        let labels = [("verb", "renew"), ("store", S::KIND)];
        let renewals = one.metrics().find("semel_store_verb_seconds_count", &labels);
        let answer = Call::charge("k").send(&other);
        answer.assert_problem(409, "request_in_progress", true);
        assert!(answer.retry_after().is_some());
        renewals.is_some_and(|count| count >= 3.0).then_some(())
    });
    gate.open();
    assert_eq!(running.answer().status, 201);
    assert!(Call::charge("k").send(&other).is_replay());
    assert_eq!(upstream.fences("k"), [1]);
}

fn a_waiter_at_one_gateway_gets_the_outcome_of_the_other<S: Server>() {
    let (gate, upstream) = Upstream::gated(|_| Reply::created("{}"));
    let [one, other] = pair::<S>(&upstream, "in_flight = \"wait\"\nwait_timeout = \"1m\"");
    let running = Call::charge("k").begin(&one);
    gate.wait_for(1);
    let waiting = Call::charge("k").begin(&other);
    eventually("it waits", || {
        (other.metrics().find("semel_waiters", &[]) == Some(1.0)).then_some(())
    });
    gate.open();
    let (first, second) = (running.answer(), waiting.answer());
    assert_eq!((first.status, second.status), (201, 201));
    assert!(!first.is_replay() && second.is_replay() && first.body == second.body);
    assert_eq!(upstream.count(), 1);
}

/// Trap 2: claims that race, through both, again and again.
fn of_fifty_at_once_through_both_one_executes_and_all_get_its_answer<S: Server>() {
    let upstream = Upstream::start();
    let gateways = pair::<S>(&upstream, "in_flight = \"wait\"\nwait_timeout = \"1m\"");
    for round in 0..5 {
        let key = format!("k-{round}");
        let answers = at_once(50, |number| Call::charge(&key).send(&gateways[number % 2]));
        let bodies: BTreeSet<_> = answers.iter().map(Answer::text).collect();
        assert_eq!(bodies.len(), 1, "{bodies:?}");
        assert!(answers.iter().all(|answer| answer.status == 201));
        assert_eq!(answers.iter().filter(|answer| !answer.is_replay()).count(), 1);
        assert_eq!(upstream.fences(&key), [1], "more than one executed");
    }
}

/// "Connection refused releases": the other one may execute.
fn one_gateway_executes_a_key_that_the_other_released<S: Server>() {
    let upstream = Upstream::with(|seen| match seen.execution {
        1 => Reply::new(503, "later"),
        _ => Reply::created("{}"),
    });
    let [one, other] = pair::<S>(&upstream, "");
    assert_eq!(Call::charge("k").send(&one).status, 503);
    let second = Call::charge("k").send(&other);
    assert_eq!((second.status, second.is_replay()), (201, false));
    assert!(Call::charge("k").send(&one).is_replay());
    assert_eq!(upstream.fences("k"), [1, 2]);
}
