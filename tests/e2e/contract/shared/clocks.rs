//! Trap 18: whatever a node's clock shows, the store's counts.

use super::on_each_server;
use crate::support::{Call, Reply, Server, Setup, Upstream, eventually};

on_each_server!(
    a_record_is_not_replayed_past_its_expiry_by_a_node_that_is_an_hour_behind,
    a_record_is_replayed_by_a_node_that_is_an_hour_ahead,
);

const HOUR_MS: i64 = 3_600_000;
const SHORT: &str = "lease = \"500ms\"\nupstream_timeout = \"1s\"\nttl = \"3s\"";

/// By the node's own clock the copy would be good for another hour.
fn a_record_is_not_replayed_past_its_expiry_by_a_node_that_is_an_hour_behind<S: Server>() {
    let (_kept, store) = S::shifted_store(HOUR_MS);
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).on(&store).policy(SHORT).start();
    assert_eq!(Call::charge("k").send(&gateway).status, 201);
    assert!(Call::charge("k").send(&gateway).is_replay());
    eventually("the record expires", || {
        (!Call::charge("k").send(&gateway).is_replay()).then_some(())
    });
    assert_eq!(upstream.executions("k"), 2);
}

/// By the node's own clock everything would have expired long ago.
fn a_record_is_replayed_by_a_node_that_is_an_hour_ahead<S: Server>() {
    let (_kept, store) = S::shifted_store(-HOUR_MS);
    let (gate, upstream) = Upstream::gated(|_| Reply::created("{}"));
    let start = || {
        let policy = "upstream_timeout = \"1m\"\nttl = \"5m\"";
        Setup::before(&upstream).on(&store).policy(policy).start()
    };
    let (one, other) = (start(), start());
    let first = Call::charge("k").begin(&one);
    gate.wait_for(1);
    Call::charge("k").send(&other).assert_problem(409, "request_in_progress", true);
    gate.open();
    assert_eq!(first.answer().status, 201);
    for gateway in [&one, &other, &one, &other] {
        assert!(Call::charge("k").send(gateway).is_replay());
    }
    assert_eq!(upstream.fences("k"), [1]);
}
