use std::collections::BTreeSet;

use super::*;
use crate::{Fence, Fingerprint, Owner, Reply};

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn fence(number: u64) -> Fence {
    Fence::new(number).unwrap()
}

fn lease(number: u64, who: u128, until: u64) -> Lease {
    Lease::new(
        id(1),
        Fingerprint::from_bytes([0; 32]),
        fence(number),
        Owner::from_u128(who),
        at(until),
        at(100),
    )
}

fn id(byte: u8) -> RecordId {
    RecordId::from_bytes([byte; 32])
}

/// A record of the second lease, granted to owner 2.
fn record(state: State) -> Record {
    Record {
        fingerprint: Fingerprint::from_bytes([0; 32]),
        created: at(10),
        expires: at(100),
        fence: fence(2),
        owner: Owner::from_u128(2),
        state,
    }
}

fn completed(reply: &'static str) -> Settlement {
    Settlement::Completed(Reply::new(reply))
}

#[test]
fn ids_are_unique_and_numbered_in_order() {
    let ids: BTreeSet<_> = Invariant::ALL.iter().map(|i| i.id()).collect();
    assert_eq!(ids.len(), Invariant::ALL.len());
    for (number, invariant) in (1..).zip(Invariant::ALL) {
        let id = invariant.to_string();
        assert!(id.starts_with(&format!("I{number} ")), "{id}");
    }
}

#[test]
fn one_lease_counts_those_that_have_not_run_out() {
    let leases = [lease(1, 1, 20), lease(2, 2, 30)];
    assert!(one_lease(&leases, at(20)));
    assert!(!one_lease(&leases, at(19)));
    assert!(one_lease([], at(0)));
}

#[test]
fn settled_is_final_until_the_record_expires() {
    let settled = record(State::Settled(completed("a")));
    let changed = record(State::Settled(completed("b")));
    assert!(settled_is_final(&settled, Some(&settled), at(99)));
    assert!(!settled_is_final(&settled, Some(&changed), at(99)));
    assert!(!settled_is_final(&settled, None, at(99)));
    assert!(settled_is_final(&settled, None, at(100)));
    assert!(settled_is_final(&record(State::Held), None, at(99)));
    let prolonged = Record { expires: at(101), ..settled.clone() };
    assert!(!settled_is_final(&settled, Some(&prolonged), at(99)));
}

#[test]
fn fenced_requires_the_current_fence_and_owner() {
    let (before, after) = (record(State::Held), record(State::Released));
    let wrote = |lease| fenced(Some(&before), Some(&after), &lease);
    assert!(wrote(lease(2, 2, 0)));
    assert!(!wrote(lease(1, 2, 0)));
    assert!(!wrote(lease(2, 1, 0)));
    assert!(!fenced(None, Some(&after), &lease(2, 2, 0)));
    assert!(fenced(Some(&before), Some(&before), &lease(1, 1, 0)));
}

#[test]
fn fences_may_fall_only_with_a_new_life() {
    let before = record(State::Released);
    let lower = Record { fence: fence(1), ..before.clone() };
    let new_life = Record { created: at(200), ..lower.clone() };
    assert!(fence_never_falls(&lower, &before));
    assert!(!fence_never_falls(&before, &lower));
    assert!(fence_never_falls(&before, &new_life));
}

#[test]
fn same_answer_compares_all_to_the_first() {
    let (a, b) = (completed("a"), completed("b"));
    assert!(same_answer([]));
    assert!(same_answer([&a, &a]));
    assert!(!same_answer([&a, &a, &b]));
    // The same bytes as another kind of outcome are another answer.
    assert!(!same_answer([&a, &Settlement::Failed(Reply::new("a"))]));
}

#[test]
fn claim_first_requires_a_durable_grant() {
    let durable = record(State::Leased { until: at(50) });
    assert!(claim_first(Some(&durable), &lease(2, 2, 50)));
    // Taken over before it began: its own claim had been durable all the same.
    assert!(claim_first(Some(&durable), &lease(1, 1, 20)));
    assert!(!claim_first(Some(&durable), &lease(3, 3, 80)));
    assert!(!claim_first(None, &lease(1, 1, 20)));
}

#[test]
fn settle_first_requires_the_durable_outcome_or_a_marked_answer() {
    let (a, b) = (completed("a"), completed("b"));
    let settled = record(State::Settled(a.clone()));
    assert!(settle_first(Some(&settled), &a, false));
    assert!(!settle_first(Some(&settled), &b, false));
    assert!(!settle_first(Some(&record(State::Held)), &a, false));
    assert!(!settle_first(None, &a, false));
    assert!(settle_first(None, &a, true));
}

#[test]
fn scoped_requires_distinct_ids_for_distinct_names() {
    assert!(scoped((&"ann", id(1)), (&"ann", id(1))));
    assert!(scoped((&"ann", id(1)), (&"bob", id(2))));
    assert!(!scoped((&"ann", id(1)), (&"bob", id(1))));
    assert!(!scoped((&"ann", id(1)), (&"ann", id(2))));
}

#[test]
fn a_mismatch_that_writes_or_is_answered_otherwise_is_not_inert() {
    let written = record(State::Released);
    assert!(mismatch_is_inert(&Claim::Mismatch, None));
    assert!(!mismatch_is_inert(&Claim::Mismatch, Some(&written)));
    assert!(!mismatch_is_inert(&Claim::Unknown, None));
    assert!(!mismatch_is_inert(&Claim::Execute(lease(1, 1, 20)), None));
}

#[test]
fn detached_and_bounded_compare_counts() {
    assert!(detached(2, 2));
    assert!(!detached(2, 1));
    assert!(bounded(3, 3));
    assert!(!bounded(4, 3));
}
