//! Replies that are too large to be kept are passed on, and never executed again. Trap 6.

use crate::support::{Call, Reply, Setup, Upstream};

#[test]
fn a_reply_over_its_limit_is_streamed_and_then_omitted() {
    let upstream = Upstream::with(|_| {
        Reply::large(201, 3 << 20).field("Location", "/reports/7").field("Content-Type", "text/csv")
    });
    let gateway = Setup::before(&upstream).policy("max_reply_body = \"1MiB\"").start();
    let first = Call::charge("k").send(&gateway);
    assert_eq!((first.status, first.body.len()), (201, 3 << 20));
    assert_eq!(first.header("x-idempotency-body"), None);
    let gateway = gateway.kill().start();
    for _ in 0..2 {
        let replay = Call::charge("k").send(&gateway);
        assert!(replay.is_replay());
        assert_eq!((replay.status, replay.body.len()), (201, 0));
        assert_eq!(replay.header("x-idempotency-body"), Some("omitted"));
        assert_eq!(replay.header("location"), Some("/reports/7"));
        assert_eq!(replay.header("content-type"), Some("text/csv"));
    }
    let other = Call::charge("k").json("{}").send(&gateway);
    other.assert_problem(409, "idempotency_payload_mismatch", false);
    assert_eq!(upstream.count(), 1);
}

/// One byte decides.
#[test]
fn a_reply_of_exactly_the_limit_is_kept() {
    let upstream = Upstream::with(|seen| {
        let over = usize::from(seen.key() == Some("over"));
        Reply::new(200, vec![b'x'; 1_024 + over])
    });
    let gateway = Setup::before(&upstream).policy("max_reply_body = \"1KiB\"").start();
    for (key, replayed, mark) in [("at", 1_024, None), ("over", 0, Some("omitted"))] {
        let first = Call::charge(key).send(&gateway);
        assert!(first.body.len() >= 1_024);
        let replay = Call::charge(key).send(&gateway);
        assert_eq!((replay.body.len(), replay.header("x-idempotency-body")), (replayed, mark));
    }
    assert_eq!(upstream.count(), 2);
}

/// A client that hangs up in the middle of a large reply changes nothing: the work was done.
#[test]
fn a_client_that_leaves_a_large_reply_does_not_free_the_key() {
    let upstream = Upstream::with(|_| Reply::large(201, 64 << 20));
    let gateway = Setup::before(&upstream).policy("max_reply_body = \"1KiB\"").start();
    let first = Call::charge("k").begin(&gateway);
    crate::support::eventually("the outcome is settled", || {
        (gateway.metrics().attempts("executed") >= 1.0).then_some(())
    });
    drop(first);
    let replay = Call::charge("k").send(&gateway);
    assert_eq!(replay.header("x-idempotency-body"), Some("omitted"));
    assert_eq!(upstream.count(), 1);
}
