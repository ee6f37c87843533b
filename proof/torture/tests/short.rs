//! One short run on each store: everything that can break does, and nothing is wrong.
//!
//! The program is the one that bugs can be planted into, and none is.
//! Which faults come is drawn from the seed, so that they come is not left to chance.

mod support;

use std::process::Command;

use semel_torture::StoreKind;
use semel_torture::run::{Plan, run};

use support::{one_at_a_time, semel, turn};

const SECONDS: u64 = 20;
/// It takes longer to become whole again.
const SECONDS_OF_A_CLUSTER: u64 = 22;

fn survives(store: StoreKind, seed: u64) {
    let _turn = one_at_a_time();
    let is_cluster = store == StoreKind::RedisCluster;
    let seconds = if is_cluster { SECONDS_OF_A_CLUSTER } else { SECONDS };
    let mut plan = Plan::new(store, seed, seconds, semel());
    plan.clients = 24;
    // So that many leases are held when something breaks.
    plan.slow_percent = 20;
    let done = run(&plan).expect("a run");
    let report = &done.report;
    println!("{report}");
    assert!(done.is_good(), "{:?}, kept in {:?}:\n{report}", done.failure, done.kept);
    let missing = done.missing.as_ref();
    missing.inspect(|(kind, why)| println!("NOT RUN: {kind}: {why}"));
    for kind in plan.kinds() {
        let is_missing = missing.is_some_and(|(missing, _)| *missing == kind);
        // Nothing may have been said on a network that was broken for a moment.
        let is_there = report.faults.keys().any(|known| known.starts_with(kind.as_str()));
        assert!(is_missing || is_there, "no {kind}: {report}");
    }
    // A master that is killed is back soon, but not before its replica has its place.
    assert!(!is_cluster || report.faults.contains_key("promoted"), "no promotion: {report}");
    // Which of both happens to an abandoned lease is its route's policy.
    let abandoned = report.takeovers + report.unknown;
    assert!(abandoned > 0, "no lease was abandoned: the faults did not bite: {report}");
    assert!(report.outcomes > 500, "hardly anything was done: {report}");
    assert!(report.refusals.contains_key("idempotency_payload_mismatch"), "{report}");
}

#[test]
fn embedded_survives() {
    survives(StoreKind::Embedded, 131);
}

#[test]
fn redis_survives() {
    survives(StoreKind::Redis, 125);
}

#[test]
fn a_redis_cluster_survives() {
    survives(StoreKind::RedisCluster, 107);
}

#[test]
fn postgres_survives() {
    survives(StoreKind::Postgres, 168);
}

#[test]
fn tiers_survive() {
    survives(StoreKind::Tiered, 164);
}

/// The runs of another test program are those of another process.
#[test]
fn while_one_runs_no_other_program_has_its_turn() {
    let _turn = one_at_a_time();
    let other = Command::new("flock").arg("--nonblock").arg(turn()).arg("true").status();
    assert_eq!(other.expect("flock (util-linux) starts").code(), Some(1));
}
