//! The protocol, model-checked: every interleaving of a few nodes, records and attempts.
//!
//! The store's atomic steps are the real `decide`, `renew`, `settle` and `release`; what surrounds
//! them (nodes that crash or act late, replies that get lost, messages that land after their sender
//! gave up, a clock, a sweeper, clients) is the model. A pause needs no step of its own: any node
//! may do nothing while the clock advances, and then act as if no time had passed.
//!
//! Each run explores its whole space; the bounds make it finite. Invariants go by their ids.

#[path = "model/bounds.rs"]
mod bounds;
#[path = "model/codec.rs"]
mod codec;
#[path = "model/node.rs"]
mod node;
#[path = "model/properties.rs"]
mod properties;
#[path = "model/state.rs"]
mod state;
#[path = "model/step.rs"]
mod step;
#[path = "model/store.rs"]
mod store;

use bounds::{Bounds, Mistake, Network, System};
use semel_core::OnAbandoned;
use semel_core::invariants::Invariant;
use stateright::{Checker, HasDiscoveries, Model};

/// Three nodes, two records: attempts compete for the nodes, and two of them for one record.
const TWO_RECORDS: Bounds = Bounds {
    arrivals: [2, 1],
    mismatching: None,
    lease: 2,
    ttl: 3,
    end: 4,
    network: Network::LosesReplies,
};

/// One record, for which three attempts compete over its lives, one of them with another request, while
/// messages land late.
const STRAYS: Bounds = Bounds {
    arrivals: [3, 0],
    mismatching: Some(2),
    end: 5,
    network: Network::Strays,
    ..TWO_RECORDS
};

/// One record, watched for many leases and three long lives.
const LONG: Bounds = Bounds { arrivals: [2, 0], ttl: 7, end: 20, ..TWO_RECORDS };

/// Enough for any of the mistakes to show.
const SMALL: Bounds = Bounds { arrivals: [3, 0], mismatching: None, end: 5, ..TWO_RECORDS };

/// How much of the system a run has seen.
struct Seen {
    states: usize,
    depth: usize,
}

/// Checks the whole space of the protocol as it is.
fn check(bounds: Bounds, on_abandoned: OnAbandoned) -> Seen {
    let system = System::new(bounds, on_abandoned);
    let checker = system.checker().threads(2).spawn_bfs().join();
    let (states, depth) = (checker.unique_state_count(), checker.max_depth());
    println!("{on_abandoned:?} {bounds:?}: {states} states, depth {depth}");
    checker.assert_properties();
    Seen { states, depth }
}

/// Checks the protocol with a mistake in it, until each of these invariants was seen broken.
fn check_broken(mistake: Mistake, expected: [Invariant; 2]) {
    find(SMALL, mistake, expected.map(Invariant::id));
}

/// Checks the protocol with a mistake in it, until each of these properties was seen broken.
fn find<const N: usize>(bounds: Bounds, mistake: Mistake, ids: [&'static str; N]) {
    let checker = System::new(bounds, OnAbandoned::Reexecute)
        .with(mistake)
        .checker()
        .threads(2)
        .finish_when(HasDiscoveries::AllOf(ids.into()))
        .spawn_bfs()
        .join();
    for id in ids {
        let path = checker.discovery(id);
        let path = path.unwrap_or_else(|| panic!("{mistake:?} was not found out by {id}"));
        println!("{mistake:?} breaks {id} by {:?}", path.into_actions());
    }
}

#[test]
fn reexecute_keeps_the_invariants_over_two_records() {
    let bounds = Bounds { end: 5, ..TWO_RECORDS };
    assert!(check(bounds, OnAbandoned::Reexecute).states >= 1_000_000);
}

#[test]
fn fail_keeps_the_invariants_over_two_records() {
    check(TWO_RECORDS, OnAbandoned::Fail);
}

#[test]
fn hold_keeps_the_invariants_over_two_records() {
    check(TWO_RECORDS, OnAbandoned::Hold);
}

#[test]
fn reexecute_keeps_the_invariants_when_messages_arrive_late() {
    check(STRAYS, OnAbandoned::Reexecute);
}

#[test]
fn fail_keeps_the_invariants_when_messages_arrive_late() {
    check(STRAYS, OnAbandoned::Fail);
}

#[test]
fn hold_keeps_the_invariants_when_messages_arrive_late() {
    check(STRAYS, OnAbandoned::Hold);
}

#[test]
fn reexecute_keeps_the_invariants_for_long() {
    let seen = check(LONG, OnAbandoned::Reexecute);
    assert!(seen.states >= 1_000_000);
    assert!(seen.depth >= 30);
}

#[test]
fn hold_keeps_the_invariants_for_long() {
    assert!(check(LONG, OnAbandoned::Hold).depth >= 30);
}

/// A late holder hands back its successor's lease, and a third attempt is granted one beside it.
#[test]
fn without_the_fence_check_the_model_finds_a_violation() {
    check_broken(Mistake::NoFenceCheck, [Invariant::Fenced, Invariant::OneLease]);
}

/// Two nodes both see nothing, and both execute; a third writes over a settled record.
#[test]
fn with_check_then_set_the_model_finds_a_violation() {
    check_broken(Mistake::CheckThenSet, [Invariant::OneLease, Invariant::SettledIsFinal]);
}

/// The node crashes between its answer and the settlement, and the next one answers otherwise.
#[test]
fn with_the_reply_before_the_settlement_the_model_finds_a_violation() {
    check_broken(Mistake::SettleAfterReply, [Invariant::SettleFirst, Invariant::SameAnswer]);
}

/// A copy of a claim lands after its owner has released, and is granted a lease that has no holder.
#[test]
fn with_grants_to_an_owner_that_released_the_model_finds_a_violation() {
    find(STRAYS, Mistake::GrantsReleased, [properties::NO_GHOST]);
}

/// An outcome that comes after a row of releases is forgotten soon after it was settled.
#[test]
fn with_retention_from_the_first_claim_the_model_finds_a_violation() {
    find(SMALL, Mistake::RetainsFromTheStart, [properties::RETAINED]);
}
