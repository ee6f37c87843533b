//! What must hold in every state, and what must be possible.

use semel_core::OnAbandoned;
use semel_core::invariants::Invariant;
use stateright::Property;

use crate::bounds::{Network, System};
use crate::state::{Entry, Node, Outcome, Row, RowState, Stage, Verb, World};
use crate::store;

pub(crate) const NEVER_TWICE: &str = "nothing executes twice in one life";
pub(crate) const NO_GHOST: &str = "an owner that has released is not granted again";
pub(crate) const RETAINED: &str = "a record lives for a whole retention after its latest grant";

type Condition = fn(&System, &World) -> bool;

/// The properties of a run under this policy, over this network.
pub(crate) fn of(on_abandoned: OnAbandoned, network: Network) -> Vec<Property<System>> {
    let always = safety().map(|(invariant, holds)| Property::always(invariant.id(), holds));
    let sometimes = reachable().map(|(name, holds)| Property::sometimes(name, holds));
    let mut properties: Vec<_> = always.into_iter().chain(sometimes).collect();
    properties.push(Property::always(NO_GHOST, |_, world: &World| !world.ghost));
    properties.push(Property::always(RETAINED, |_, world: &World| !world.short_lived));
    if network == Network::Strays {
        properties.push(late_claim());
    }
    match on_abandoned {
        OnAbandoned::Reexecute => properties.extend(second_executions()),
        OnAbandoned::Hold => properties.extend(no_second_execution()),
        OnAbandoned::Fail => {
            properties.extend(no_second_execution());
            properties.push(abandoned_fails());
        }
    }
    properties
}

/// Most invariants are about steps: those are judged when the step is taken.
fn safety() -> [(Invariant, Condition); 7] {
    use Invariant::{
        ClaimFirst, Fenced, MismatchIsInert, OneLease, SameAnswer, SettleFirst, SettledIsFinal,
    };
    [
        (OneLease, store::one_lease),
        (SettledIsFinal, |_, world| world.kept(SettledIsFinal)),
        (Fenced, |_, world| world.kept(Fenced)),
        (SameAnswer, |_, world| world.kept(SameAnswer)),
        (ClaimFirst, |_, world| world.kept(ClaimFirst)),
        (SettleFirst, |_, world| world.kept(SettleFirst)),
        (MismatchIsInert, |_, world| world.kept(MismatchIsInert)),
    ]
}

/// What must be possible under every policy, or the model would be proving things about nothing.
fn reachable() -> [(&'static str, Condition); 6] {
    [
        ("a replay is answered", |_, world| any(world, |node, _| node.stage == Stage::Replaying)),
        ("a late settle is refused", |_, world| any(world, |node, _| node.stage == Stage::Refused)),
        ("a granted lease is unknown to its owner", |_, world| {
            any(world, |node, entry| node.stage == Stage::Claiming && is_leased_to(node, entry))
        }),
        ("a lease ran out and its holder settles all the same", |_, world| {
            any(world, |node, entry| {
                node.stage == Stage::Executed && node.until == 0 && is_leased_to(node, entry)
            })
        }),
        ("a record is swept", |_, world| {
            let swept = |entry: &Entry| entry.life > 0 && entry.row.is_none();
            world.entries.iter().any(swept)
        }),
        ("a holder outlives its record", |_, world| {
            any(world, |node, entry| node.stage == Stage::Executed && node.life < entry.life)
        }),
    ]
}

/// A claim that its sender gave up on can be under way after its owner has released.
fn late_claim() -> Property<System> {
    Property::sometimes("a claim outlives the release of its owner", |_, world: &World| {
        world.stray.is_some_and(|message| {
            let released =
                |row: Row| row.state == RowState::Released && row.attempt == message.sender.attempt;
            message.verb == Verb::Claim
                && world.entry(message.sender.record).row.is_some_and(released)
        })
    })
}

/// The documented price of reexecuting.
fn second_executions() -> Vec<Property<System>> {
    let taken_over: Condition = |_, world| {
        any(world, |node, entry| {
            node.holds(node.record)
                && node.life == entry.life
                && entry.row.is_some_and(|row| row.fence > node.fence)
        })
    };
    let fenced_off: Condition = |_, world| any(world, |node, _| node.stage == Stage::FencedOff);
    let twice: Condition = |_, world| executions(world).any(|number| number > 1);
    vec![
        Property::sometimes("a lease is taken over from a live holder", taken_over),
        Property::sometimes("a fenced-off holder gets the recorded outcome", fenced_off),
        Property::sometimes("abandoned work executes again", twice),
    ]
}

/// What `hold` and `fail` promise instead, and that neither does so by never moving on.
fn no_second_execution() -> Vec<Property<System>> {
    let never_twice: Condition = |_, world| executions(world).all(|number| number <= 1);
    let hold_resolves: Condition = |_, world| {
        any(world, |node, entry| {
            node.stage == Stage::Unsure && settled(entry) == Some(Outcome::Of(node.attempt))
        })
    };
    let tried_again: Condition = |_, world| {
        any(world, |node, entry| {
            node.stage == Stage::Executed && node.fence > 1 && is_leased_to(node, entry)
        })
    };
    vec![
        Property::always(NEVER_TWICE, never_twice),
        Property::sometimes("a hold resolves itself", hold_resolves),
        Property::sometimes("released work is tried again", tried_again),
    ]
}

fn abandoned_fails() -> Property<System> {
    Property::sometimes("a live holder finds its work called abandoned", |_, world| {
        any(world, |node, _| node.stage == Stage::FencedOff && node.outcome == Outcome::Abandoned)
    })
}

fn any(world: &World, holds: impl Fn(&Node, &Entry) -> bool) -> bool {
    let mut nodes = world.nodes.iter();
    nodes.any(|node| holds(node, world.entry(node.record)))
}

fn is_leased_to(node: &Node, entry: &Entry) -> bool {
    entry.row.is_some_and(|row| {
        row.attempt == node.attempt && matches!(row.state, RowState::Leased { .. })
    })
}

fn settled(entry: &Entry) -> Option<Outcome> {
    match entry.row?.state {
        RowState::Settled(outcome) => Some(outcome),
        _ => None,
    }
}

fn executions(world: &World) -> impl Iterator<Item = u8> {
    let lives = world.entries.iter().flat_map(Entry::lives);
    lives.map(|life| life.executions)
}
