//! Row "too many running executions or new keys of one scope": 429, with `Retry-After`, nothing executed. Trap 25.

use crate::support::{Answer, Call, Gate, Gateway, Reply, Setup, Upstream, eventually};

/// An upstream that holds back all requests with the key `held`.
fn held() -> (Gate, Upstream) {
    let gate = Gate::default();
    let inside = gate.clone();
    let upstream = Upstream::with(move |seen| {
        if seen.key().is_some_and(|key| key.starts_with("held")) {
            inside.pass();
        }
        Reply::created("{}")
    });
    (gate, upstream)
}

fn of(who: &str, key: &str) -> Call {
    Call::charge(key).from(&format!("Bearer {who}"))
}

#[track_caller]
fn assert_too_many(answer: &Answer) {
    answer.assert_problem(429, "too_many_keys", true);
    assert!(answer.retry_after().is_some_and(|seconds| seconds > 0), "{answer:?}");
}

/// `max_executions_per_scope`: one more is refused, others are not, and what executes nothing is answered.
#[test]
fn one_execution_too_many_of_a_client_is_refused() {
    let (gate, upstream) = held();
    let policy = "max_executions_per_scope = 2";
    let gateway = Setup::before(&upstream).policy(policy).start();
    let settled = of("ann", "settled").send(&gateway);
    let running = [of("ann", "held-1").begin(&gateway), of("ann", "held-2").begin(&gateway)];
    gate.wait_for(2);
    assert_too_many(&of("ann", "new").send(&gateway));
    of("ann", "held-1").send(&gateway).assert_problem(409, "request_in_progress", true);
    let replay = of("ann", "settled").send(&gateway);
    assert!(replay.is_replay() && replay.body == settled.body, "{replay:?}");
    let other = of("ann", "settled").json("{}").send(&gateway);
    other.assert_problem(409, "idempotency_payload_mismatch", false);
    assert_eq!(of("bob", "new").send(&gateway).status, 201);
    assert_eq!(upstream.executions("new"), 1, "bob's");
    assert_counted(&gateway, 1.0);
    gate.open();
    for running in running {
        assert_eq!(running.answer().status, 201);
    }
    eventually("there is room again", || {
        (of("ann", "new").send(&gateway).status == 201).then_some(())
    });
    assert_eq!(upstream.executions("new"), 2);
}

fn assert_counted(gateway: &Gateway, refused: f64) {
    let count = gateway.metrics().attempts("too_many_keys");
    assert!((count - refused).abs() < f64::EPSILON, "{count}");
}

/// Work goes on when its client has hung up, and so does its count. I9.
#[test]
fn a_disconnected_client_still_counts_its_execution() {
    let (gate, upstream) = held();
    let gateway = Setup::before(&upstream).policy("max_executions_per_scope = 1").start();
    let running = of("ann", "held").begin(&gateway);
    gate.wait_for(1);
    drop(running);
    assert_too_many(&of("ann", "new").send(&gateway));
    gate.open();
    eventually("there is room again", || {
        (of("ann", "new").send(&gateway).status == 201).then_some(())
    });
    assert!(of("ann", "held").send(&gateway).is_replay());
}

/// Paths that no route matches are one route; a route of its own has a count of its own.
#[test]
fn another_path_is_no_way_around_the_limit() {
    let (gate, upstream) = held();
    let gateway = Setup::before(&upstream)
        .policy("max_executions_per_scope = 1")
        .route("POST /orders/{id}", "")
        .start();
    let to = |path: &str, key: &str| Call::new("POST", path).key(key).from("ann").json("{}");
    let running = to("/a", "held").begin(&gateway);
    gate.wait_for(1);
    assert_too_many(&to("/b", "new").send(&gateway));
    assert_eq!(to("/orders/7", "new").send(&gateway).status, 201);
    gate.open();
    assert_eq!(running.answer().status, 201);
}

/// Clients without identity share a scope: a limit for it would let one of them shut out the others.
#[test]
fn clients_without_identity_are_not_counted() {
    let (gate, upstream) = held();
    for scope in ["[\"auto\"]", "[\"global\"]"] {
        let policy =
            format!("max_executions_per_scope = 1\nnew_keys_per_scope = \"1/h\"\nscope = {scope}");
        let gateway = Setup::before(&upstream).policy(&policy).start();
        let arrived = upstream.count();
        let running = Call::charge("held").begin(&gateway);
        eventually("it runs", || (upstream.count() > arrived).then_some(()));
        assert_eq!(Call::charge("new").send(&gateway).status, 201, "{scope}");
        gate.open();
        assert_eq!(running.answer().status, 201);
        gate.close();
    }
}

/// `new_keys_per_scope`: retries are none, and what was refused has left nothing behind.
#[test]
fn new_keys_beyond_their_rate_are_refused() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).policy("new_keys_per_scope = \"2/h\"").start();
    for _ in 0..5 {
        assert_eq!(of("ann", "first").send(&gateway).status, 201);
    }
    assert_eq!(of("ann", "second").send(&gateway).status, 201);
    let refused = of("ann", "third").send(&gateway);
    assert_too_many(&refused);
    assert!(refused.retry_after() > Some(1_700), "half an hour: {refused:?}");
    assert!(of("ann", "second").send(&gateway).is_replay());
    assert_eq!(of("bob", "third").send(&gateway).status, 201);
    assert_eq!((upstream.count(), upstream.executions("third")), (3, 1));
    // The count is that of a process, and a refusal has no record.
    let gateway = gateway.kill().start();
    let third = of("ann", "third").send(&gateway);
    assert_eq!((third.status, third.is_replay()), (201, false));
}

/// `max_records_per_scope`: as many in a `ttl`, whose part of the time is said.
#[test]
fn records_beyond_their_number_are_refused() {
    let upstream = Upstream::start();
    let policy = "max_records_per_scope = 2\nttl = \"1h\"";
    let gateway = Setup::before(&upstream).policy(policy).start();
    for key in ["first", "second", "first", "second"] {
        assert_eq!(of("ann", key).send(&gateway).status, 201);
    }
    let refused = of("ann", "third").send(&gateway);
    assert_too_many(&refused);
    assert!((1_700..=1_800).contains(&refused.retry_after().unwrap_or(0)), "{refused:?}");
    assert!(of("ann", "second").send(&gateway).is_replay());
    assert_eq!(of("bob", "third").send(&gateway).status, 201);
    assert_eq!((upstream.count(), upstream.executions("third")), (3, 1));
}

/// `max_record_bytes_per_scope`: what a client has stored too much of is paid by waiting; what it has is given.
#[test]
fn new_keys_are_refused_while_stored_replies_are_too_large() {
    let (gate, upstream) = held();
    let policy = "max_record_bytes_per_scope = \"1B\"\nttl = \"1h\"";
    let gateway = Setup::before(&upstream).policy(policy).start();
    let running = of("ann", "held").begin(&gateway);
    gate.wait_for(1);
    let settled = of("ann", "settled").send(&gateway);
    assert_eq!(settled.status, 201);
    let refused = of("ann", "new").send(&gateway);
    assert_too_many(&refused);
    assert!(refused.retry_after() > Some(3_600), "many times the bytes: {refused:?}");
    let replay = of("ann", "settled").send(&gateway);
    assert!(replay.is_replay() && replay.body == settled.body, "{replay:?}");
    of("ann", "held").send(&gateway).assert_problem(409, "request_in_progress", true);
    assert_eq!(of("bob", "new").send(&gateway).status, 201);
    assert_eq!(upstream.executions("new"), 1, "bob's");
    gate.open();
    assert_eq!(running.answer().status, 201);
}

/// A reload changes the limits of what comes from then on.
#[test]
fn a_reload_changes_the_limits() {
    let (gate, upstream) = held();
    let setup = Setup::before(&upstream);
    let gateway = setup.clone().start();
    let running = of("ann", "held").begin(&gateway);
    gate.wait_for(1);
    assert_eq!(of("ann", "first").send(&gateway).status, 201);
    setup.policy("max_executions_per_scope = 1").write();
    gateway.signal(rustix::process::Signal::HUP);
    let mut tries = 0;
    eventually("the new limit holds, and what runs counts", || {
        tries += 1;
        let answer = of("ann", &format!("try-{tries}")).send(&gateway);
        (answer.status == 429).then_some(())
    });
    gate.open();
    assert_eq!(running.answer().status, 201);
}
