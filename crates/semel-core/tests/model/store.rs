//! The store: each message is one atomic step of the real protocol, judged by an observer.

use semel_core::invariants::{
    self, Invariant, fence_never_falls, fenced, mismatch_is_inert, settled_is_final,
};
use semel_core::{Claim, Decision, Lease, Owner, Record, Release, State, Transition, decide};

use crate::bounds::{Mistake, System};
use crate::codec::{self, time};
use crate::state::{Message, Node, Outcome, RowState, Verb, World};

/// The store's answer to a message.
pub(crate) enum Reply {
    Claim(Claim),
    Write(Transition),
}

impl System {
    /// The store takes one message.
    pub(crate) fn land(&self, world: &mut World, message: &Message) -> Reply {
        match message.verb {
            Verb::Claim => Reply::Claim(self.claim(world, &message.sender)),
            verb => Reply::Write(self.write(world, verb, &message.sender)),
        }
    }

    fn claim(&self, world: &mut World, sender: &Node) -> Claim {
        let now = time(world.now);
        let before = durable(world, sender.record);
        // Only the mistaken store goes by what it saw at another time.
        let read = match sender.seen {
            Some(seen) => seen.0.map(codec::record),
            None => before.clone(),
        };
        let attempt = self.attempt(sender);
        let read = match self.mistake {
            Mistake::GrantsReleased => read.map(anybodys),
            _ => read,
        };
        let Decision { claim, write } = decide(read.as_ref(), &attempt, &self.policy, now);

        if before.as_ref().is_some_and(|record| {
            !record.is_expired(now) && record.fingerprint != attempt.fingerprint()
        }) {
            let inert = mismatch_is_inert(&claim, write.as_ref());
            world.judge(Invariant::MismatchIsInert, inert);
        }
        let was_over = |record: &Record| {
            !record.is_expired(now)
                && record.state == State::Released
                && record.owner == attempt.owner()
        };
        if matches!(claim, Claim::Execute(_)) && before.as_ref().is_some_and(was_over) {
            world.ghost = true;
        }
        let write = match self.mistake {
            Mistake::RetainsFromTheStart => write.map(|after| self.kept_from_the_start(after)),
            _ => write,
        };
        if let Some(after) = &write {
            keep(world, sender.record, before.as_ref(), after);
            let is_granted = matches!(claim, Claim::Execute(_));
            world.short_lived |= is_granted && after.expires < now.plus(self.policy.ttl());
        }
        claim
    }

    /// The record as a store keeps it that never prolongs a retention.
    fn kept_from_the_start(&self, record: Record) -> Record {
        let end = record.created.plus(self.policy.ttl());
        match record.state {
            State::Leased { until } => Record { expires: end.max(until), ..record },
            _ => record,
        }
    }

    fn write(&self, world: &mut World, verb: Verb, sender: &Node) -> Transition {
        let before = durable(world, sender.record);
        let lease = self.lease(sender);
        let shown = match (self.mistake, &before) {
            (Mistake::NoFenceCheck, Some(record)) => &forged(record, &lease),
            _ => &lease,
        };
        let transition = self.transition(before.as_ref(), shown, verb, sender, world.now);
        if let Transition::Write(after) = &transition {
            world.judge(Invariant::Fenced, fenced(before.as_ref(), Some(after), &lease));
            keep(world, sender.record, before.as_ref(), after);
        }
        transition
    }

    fn transition(
        &self,
        record: Option<&Record>,
        lease: &Lease,
        verb: Verb,
        sender: &Node,
        now: u8,
    ) -> Transition {
        let now = time(now);
        match verb {
            Verb::Claim => unreachable!("a claim shows no lease"),
            Verb::Renew => semel_core::renew(record, lease, self.policy.lease(), now),
            Verb::Release => semel_core::release(record, lease, Release::Retry, now),
            Verb::Hold => semel_core::release(record, lease, Release::Hold, now),
            Verb::Settle => {
                let own = codec::settlement(Outcome::Of(sender.attempt)).expect("an outcome");
                semel_core::settle(record, lease, &own, now)
            }
        }
    }
}

/// What the store durably keeps, expired or not.
pub(crate) fn durable(world: &World, record: u8) -> Option<Record> {
    world.entry(record).row.map(codec::record)
}

/// Deletes an expired record; the sweeper uses the same clock.
pub(crate) fn sweep(world: &mut World, record: u8) {
    let now = time(world.now);
    let Some(before) = durable(world, record) else {
        return;
    };
    if before.is_expired(now) {
        world.judge(Invariant::SettledIsFinal, settled_is_final(&before, None, now));
        world.entry_mut(record).row = None;
    }
}

/// Writes a record, and notes what an observer must remember of it.
fn keep(world: &mut World, id: u8, before: Option<&Record>, after: &Record) {
    let now = time(world.now);
    if let Some(before) = before {
        let is_final = settled_is_final(before, Some(after), now);
        world.judge(Invariant::SettledIsFinal, is_final);
        world.judge(Invariant::Fenced, fence_never_falls(before, after));
    }
    let entry = world.entry_mut(id);
    if before.is_none_or(|record| record.is_expired(now)) {
        entry.life += 1;
    }
    let row = codec::row(after);
    entry.row = Some(row);
    let life = entry.life_mut(entry.life);
    life.fence = life.fence.max(row.fence);
    if let RowState::Settled(outcome) = row.state {
        life.settled = outcome;
    }
}

/// The record as a store reads it that ignores the owner of a release.
fn anybodys(record: Record) -> Record {
    match record.state {
        State::Released => Record { owner: Owner::from_u128(u128::MAX), ..record },
        _ => record,
    }
}

/// The lease as a store reads it that ignores owner and fence.
fn forged(record: &Record, lease: &Lease) -> Lease {
    Lease::new(
        lease.id(),
        record.fingerprint,
        record.fence,
        record.owner,
        lease.until(),
        lease.expires(),
    )
}

/// I1, as the nodes see it.
pub(crate) fn one_lease(system: &System, world: &World) -> bool {
    (0..).zip(&world.entries).all(|(record, _)| {
        let held = world.nodes.iter().filter(|node| node.holds(record));
        let leases: Vec<Lease> = held.map(|node| system.lease(node)).collect();
        invariants::one_lease(&leases, time(world.now))
    })
}
