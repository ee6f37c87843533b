//! The admin address: `/health`, `/ready`, `/metrics`.

use crate::support::{Call, Gateway, Reply, Setup, Upstream, eventually, store_kind};

#[test]
fn health_and_ready_answer_200() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).start();
    for path in ["/health", "/ready"] {
        let answer = gateway.ask(path);
        assert_eq!(answer.status, 200, "{path}");
        assert!(!answer.body.is_empty());
    }
    assert_eq!(gateway.ask("/other").status, 404);
    assert_eq!(Call::new("DELETE", "/metrics").send_to(gateway.admin()).status, 405);
    assert_eq!(upstream.count(), 0, "the admin address passes nothing on");
}

/// Its paths are nothing special on the public address.
#[test]
fn admin_paths_are_not_served_on_the_public_address() {
    let upstream = Upstream::with(|_| Reply::new(200, "from the upstream"));
    let gateway = Setup::before(&upstream).memory().start();
    for path in ["/health", "/ready", "/metrics"] {
        assert_eq!(Call::new("GET", path).send(&gateway).text(), "from the upstream");
    }
}

fn busy() -> (Upstream, Gateway) {
    let upstream = Upstream::with(|seen| match seen.key() {
        Some("released") => Reply::new(503, ""),
        _ => Reply::created("{}"),
    });
    let gateway = Setup::before(&upstream).route("POST /v1/charges", "").start();
    Call::charge("k").send(&gateway);
    Call::charge("k").send(&gateway);
    Call::charge("k").json("{}").send(&gateway);
    Call::charge("released").send(&gateway);
    Call::charge("two words").send(&gateway);
    Call::new("POST", "/elsewhere").send(&gateway);
    (upstream, gateway)
}

#[test]
fn attempts_are_counted_by_route_and_decision() {
    let (_upstream, gateway) = busy();
    let metrics = gateway.metrics();
    let count = |route: &str, decision: &str| {
        let labels = [("route", route), ("decision", decision), ("mode", "protect")];
        metrics.find("semel_attempts_total", &labels)
    };
    let route = "POST /v1/charges";
    for decision in ["executed", "replayed", "mismatch", "released", "key_invalid"] {
        assert_eq!(count(route, decision), Some(1.0), "{decision}");
    }
    for decision in ["in_flight", "unknown", "bypassed", "key_missing", "not_stored"] {
        assert_eq!(count(route, decision), Some(0.0), "{decision}");
    }
    assert!((metrics.attempts("key_missing") - 1.0).abs() < f64::EPSILON);
}

#[test]
fn the_store_is_timed_by_verb() {
    let (_upstream, gateway) = busy();
    let (metrics, kind) = (gateway.metrics(), store_kind(&gateway));
    for (verb, least) in [("claim", 2.0), ("settle", 1.0), ("release", 1.0)] {
        let labels = [("verb", verb), ("store", &kind)];
        let count = metrics.find("semel_store_verb_seconds_count", &labels);
        assert!(count.is_some_and(|count| count >= least), "{verb}: {count:?}");
        let sum = metrics.find("semel_store_verb_seconds_sum", &labels);
        assert!(sum.is_some_and(|sum| sum > 0.0 && sum < 30.0), "{verb}: {sum:?}");
        let buckets = metrics.find("semel_store_verb_seconds_bucket", &labels);
        assert!(buckets.is_some(), "{verb} has no buckets");
    }
}

#[test]
fn added_and_upstream_time_are_separate_metrics() {
    let (_upstream, gateway) = busy();
    let metrics = gateway.metrics();
    let labels = [("route", "POST /v1/charges")];
    // Two executions; four answers that passed the engine.
    assert_eq!(metrics.find("semel_upstream_seconds_count", &labels), Some(2.0));
    assert_eq!(metrics.find("semel_added_seconds_count", &labels), Some(4.0));
    for name in ["semel_upstream_seconds_sum", "semel_added_seconds_sum"] {
        assert!(metrics.find(name, &labels).is_some_and(|sum| sum > 0.0), "{name}");
    }
}

#[test]
fn executions_in_flight_are_a_gauge() {
    let (gate, upstream) = Upstream::gated(|_| Reply::created("{}"));
    let gateway = Setup::before(&upstream).start();
    let wait_for = |count: f64| {
        eventually("so many execute", || {
            let now = gateway.metrics().find("semel_executions_in_flight", &[]);
            (now == Some(count)).then_some(())
        });
    };
    wait_for(0.0);
    let pending: Vec<_> =
        (0..3).map(|key| Call::charge(&format!("k-{key}")).begin(&gateway)).collect();
    gate.wait_for(3);
    wait_for(3.0);
    gate.open();
    for pending in pending {
        assert_eq!(pending.answer().status, 201);
    }
    wait_for(0.0);
}

/// Every metric says what it means.
#[test]
fn metrics_are_described() {
    let (_upstream, gateway) = busy();
    let text = gateway.ask("/metrics").text();
    let names = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let ours: Vec<_> = names.filter(|name| name.starts_with("semel_")).collect();
    assert!(ours.len() >= 7, "{ours:?}");
    for name in ours {
        assert!(text.contains(&format!("# HELP {name} ")), "{name} is not described");
    }
}
