//! How long a record lives. Trap 16: expiry is decided with the claim, not by the sweeper.

use std::time::Duration;

use crate::support::{Call, Reply, Setup, Upstream, eventually, now};

const SHORT: &str = "lease = \"200ms\"\nupstream_timeout = \"500ms\"\nttl = \"1500ms\"";
const TTL: Duration = Duration::from_millis(1_500);

/// A record is replayed until its ttl ends, and never after.
#[test]
fn a_record_answers_until_its_ttl_and_not_longer() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).policy(SHORT).start();
    let began = now();
    let first = Call::charge("k").send(&gateway);
    let settled = now();
    let second = eventually("the record expires", || {
        let sent = settled.elapsed();
        let answer = Call::charge("k").send(&gateway);
        let age = began.elapsed();
        if answer.is_replay() {
            assert_eq!(answer.body, first.body);
            assert!(sent < TTL, "a record past its ttl still answers");
            return None;
        }
        assert!(age >= TTL, "gone after {age:?}");
        Some(answer)
    });
    assert_eq!((second.status, second.text().as_str()), (201, r#"{"charge":2}"#));
    assert_eq!(upstream.executions("k"), 2);
}

/// A key may be used for another request when its record has expired.
#[test]
fn an_expired_key_is_free_for_another_request() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).policy(SHORT).start();
    assert_eq!(Call::charge("k").send(&gateway).status, 201);
    let other = Call::charge("k").json("{}");
    other.send(&gateway).assert_problem(409, "idempotency_payload_mismatch", false);
    eventually("the record expires", || (other.send(&gateway).status == 201).then_some(()));
    assert_eq!(upstream.count(), 2);
}

/// "… or it expires": a held key is not held for ever.
#[test]
fn a_held_key_is_free_when_its_record_expires() {
    let upstream = Upstream::with(|seen| match seen.execution {
        1 => Reply::Closes,
        _ => Reply::created("{}"),
    });
    let policy = format!("{SHORT}\non_unknown = \"hold\"");
    let gateway = Setup::before(&upstream).policy(&policy).start();
    assert_eq!(Call::charge("k").send(&gateway).status, 502);
    Call::charge("k").send(&gateway).assert_problem(409, "outcome_unknown", true);
    let answer = eventually("the record expires", || {
        let answer = Call::charge("k").send(&gateway);
        (answer.status != 409).then_some(answer)
    });
    assert_eq!((answer.status, answer.is_replay()), (201, false));
    assert_eq!(upstream.count(), 2);
}

/// Trap 5: an execution may outlive many leases; the record's life counts from its creation.
#[test]
fn the_ttl_is_not_the_lease() {
    let (gate, upstream) = Upstream::gated(|_| Reply::created("{}"));
    let gateway = Setup::before(&upstream).policy("lease = \"50ms\"\nttl = \"1h\"").start();
    let first = Call::charge("k").begin(&gateway);
    gate.wait_for(1);
    let until = now() + Duration::from_millis(300);
    eventually("six leases pass", || (now() > until).then_some(()));
    gate.open();
    assert_eq!(first.answer().status, 201);
    let until = now() + Duration::from_millis(100);
    eventually("two more pass", || (now() > until).then_some(()));
    assert!(Call::charge("k").send(&gateway).is_replay());
    assert_eq!(upstream.fences("k"), [1]);
}
