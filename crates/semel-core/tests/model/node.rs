//! The nodes: what each may do next, and how it takes the store's replies.

use semel_core::invariants::{Invariant, claim_first, same_answer, settle_first};
use semel_core::{Claim, OnUnknown, Record, Refusal, State, Transition};

use crate::bounds::{Mistake, System};
use crate::codec;
use crate::state::{Message, Node, Outcome, Row, RowState, Seen, Stage, Verb, World};
use crate::store::Reply;

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// It lands, and its reply arrives.
    Answered,
    /// It lands, and its reply is lost.
    ReplyLost,
    /// Its sender gives up on it, and it may land later.
    Strayed,
}

// === impl Delivery ===

impl Delivery {
    pub(crate) const ALL: [Self; 3] = [Self::Answered, Self::ReplyLost, Self::Strayed];
}

// === impl System ===

impl System {
    /// The requests that a node may send to the store where it stands. There is no deadline on
    /// any of them: a node that was paused sends them as late as it likes.
    pub(crate) fn verbs(&self, node: &Node) -> &'static [Verb] {
        match node.stage {
            Stage::Idle | Stage::Settled | Stage::Replaying | Stage::FencedOff | Stage::Refused => {
                &[]
            }
            Stage::Claiming => &[Verb::Claim],
            Stage::Leased => &[Verb::Renew, Verb::Release],
            // The policy decides what a node does about an unknown outcome.
            Stage::Executed => match self.policy.on_unknown() {
                OnUnknown::Release => &[Verb::Renew, Verb::Settle, Verb::Release],
                OnUnknown::Hold => &[Verb::Renew, Verb::Settle, Verb::Hold],
            },
            Stage::Releasing => &[Verb::Release],
            Stage::Unsure => &[Verb::Hold, Verb::Settle],
            Stage::Settling => &[Verb::Settle],
        }
    }

    /// Whether the node may answer its client now.
    pub(crate) fn may_answer(&self, node: &Node) -> bool {
        match node.stage {
            Stage::Settled | Stage::Replaying | Stage::FencedOff | Stage::Refused => true,
            Stage::Executed => self.mistake == Mistake::SettleAfterReply,
            _ => false,
        }
    }

    /// A new attempt comes to an idle node, which claims at once: had it waited, the attempt might
    /// as well have come later.
    pub(crate) fn arrive(&self, world: &mut World, node: usize, record: u8, how: Delivery) {
        let attempt = world.entry(record).arrivals;
        world.entry_mut(record).arrivals += 1;
        world.nodes[node] = Node { stage: Stage::Claiming, record, attempt, ..Node::default() };
        if self.mistake == Mistake::CheckThenSet {
            world.nodes[node].seen = Some(Seen(world.entry(record).row));
        } else {
            self.send(world, node, Verb::Claim, how);
        }
    }

    pub(crate) fn send(&self, world: &mut World, node: usize, verb: Verb, how: Delivery) {
        let message = world.nodes[node].message(verb);
        let stage = &mut world.nodes[node].stage;
        *stage = verb.unanswered(*stage);
        match how {
            Delivery::Strayed => world.stray = Some(message),
            Delivery::ReplyLost => drop(self.land(world, &message)),
            Delivery::Answered => {
                let reply = self.land(world, &message);
                let life = world.entry(message.sender.record).life;
                let node = &mut world.nodes[node];
                *node = Node { seen: None, ..*node };
                match reply {
                    Reply::Claim(claim) => node.claimed(claim, life),
                    Reply::Write(transition) => node.wrote(&message, &transition, life),
                }
            }
        }
    }

    /// The side effect, as late as the node likes.
    pub(crate) fn execute(&self, world: &mut World, node: usize) {
        let actor = world.nodes[node];
        let life = world.entry_mut(actor.record).life_mut(actor.life);
        life.executions += 1;
        let fence = life.fence;
        let granted = (fence > 0).then(|| noted(fence, RowState::Released));
        let claimed = claim_first(granted.as_ref(), &self.lease(&actor));
        world.judge(Invariant::ClaimFirst, claimed);
        world.nodes[node].stage = Stage::Executed;
    }

    /// The client gets the outcome, or the answer that there is none.
    pub(crate) fn answer(world: &mut World, node: usize) {
        let actor = world.nodes[node];
        let early = actor.stage == Stage::Executed;
        let outcome = if early { Outcome::Of(actor.attempt) } else { actor.outcome };
        answer(world, &actor, outcome);
        world.nodes[node] = Node::default();
        if early {
            let stage = Stage::Settling;
            world.nodes[node] = Node { stage, ..actor };
        }
    }
}

/// Judges an answer by what was ever durable in that life of the record: the record itself may
/// have been swept while the answer was on its way.
fn answer(world: &mut World, actor: &Node, outcome: Outcome) {
    let Some(answer) = codec::settlement(outcome) else {
        return;
    };
    let life = world.entry_mut(actor.record).life_mut(actor.life);
    let settled = life.settled;
    let others = [settled, life.told_early].map(codec::settlement);
    if settled == Outcome::None {
        life.told_early = outcome;
    }
    let durable = (settled != Outcome::None).then(|| noted(1, RowState::Settled(settled)));
    let was_settled = settle_first(durable.as_ref(), &answer, false);
    let is_same = same_answer(others.iter().flatten().chain([&answer]));
    world.judge(Invariant::SettleFirst, was_settled);
    world.judge(Invariant::SameAnswer, is_same);
}

/// What an observer noted, as the record that the predicates need.
fn noted(fence: u8, state: RowState) -> Record {
    codec::record(Row { other: false, created: 0, expires: 0, fence, attempt: 0, state })
}

// === impl Node ===

impl Node {
    fn claimed(&mut self, claim: Claim, life: u8) {
        match claim {
            Claim::Execute(lease) => {
                self.stage = Stage::Leased;
                self.fence = u8::try_from(lease.fence().get()).expect("few leases");
                self.until = codec::tick(lease.until());
                self.life = life;
            }
            Claim::Replay { settlement, .. } => {
                self.answers(Stage::Replaying, codec::outcome(&settlement), life);
            }
            Claim::InFlight { .. } | Claim::Mismatch | Claim::Unknown => *self = Self::default(),
        }
    }

    fn wrote(&mut self, message: &Message, transition: &Transition, life: u8) {
        match (message.verb, transition) {
            (Verb::Renew, Transition::Write(record)) => {
                if let State::Leased { until } = record.state {
                    self.until = codec::tick(until);
                }
            }
            // A node that has not begun must not begin; one that has executed still reads the recorded outcome.
            (Verb::Renew, _) if self.stage == Stage::Executed => {}
            (Verb::Settle, Transition::Write(_) | Transition::Already) => {
                self.answers(Stage::Settled, Outcome::Of(self.attempt), life);
            }
            (Verb::Hold, Transition::Write(_) | Transition::Already) => {}
            (_, Transition::Refused(Refusal::Settled { settlement, .. })) => {
                self.answers(Stage::FencedOff, codec::outcome(settlement), life);
            }
            (Verb::Settle, Transition::Refused(_)) => self.stage = Stage::Refused,
            _ => *self = Self::default(),
        }
    }

    fn answers(&mut self, stage: Stage, outcome: Outcome, life: u8) {
        self.stage = stage;
        self.outcome = outcome;
        self.life = life;
    }
}
