//! One moment of the whole system, in small numbers: millions of these are kept and hashed.

use semel_core::invariants::Invariant;

pub(crate) const NODES: usize = 3;
pub(crate) const RECORDS: usize = 2;
/// How many lives of one record a run may see; see [`Bounds::end`](crate::bounds::Bounds).
pub(crate) const LIVES: usize = 3;

/// Everything there is: the clock, the nodes, the store, the network, and what an observer noted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct World {
    /// The store's clock, in ticks.
    pub(crate) now: u8,
    /// Sorted: nodes are alike, so which of them does a thing makes no difference.
    pub(crate) nodes: [Node; NODES],
    pub(crate) entries: [Entry; RECORDS],
    /// A message whose sender gave up on it, and which may still arrive.
    pub(crate) stray: Option<Message>,
    /// Invariants that a step broke, as bits.
    pub(crate) broken: u16,
    /// Whether a lease was granted to an owner that had just released.
    pub(crate) ghost: bool,
    /// Whether a lease was granted on a record that does not live for a whole retention from then on.
    pub(crate) short_lived: bool,
}

/// A node, and the one attempt that it works on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Node {
    pub(crate) stage: Stage,
    pub(crate) record: u8,
    pub(crate) attempt: u8,
    /// Of the granted lease; zero without one.
    pub(crate) fence: u8,
    /// Until when the node believes to hold the lease, as the store answered; zero once it ran out.
    pub(crate) until: u8,
    /// Which life of the record the lease or the answer belongs to.
    pub(crate) life: u8,
    /// The answer for the client.
    pub(crate) outcome: Outcome,
    /// What a check-then-set claim has read and not yet acted upon.
    pub(crate) seen: Option<Seen>,
}

/// How far a node has come with its attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// Nothing to do, or back from a crash with an empty memory.
    #[default]
    Idle,
    /// The claim was sent and no reply came.
    Claiming,
    /// The lease was granted; nothing has happened yet.
    Leased,
    /// The side effect has happened, and the outcome is known to this node only.
    Executed,
    /// The lease is being handed back.
    Releasing,
    /// The outcome was reported as unknown, and may yet be learnt.
    Unsure,
    /// The settlement was sent and no reply came.
    Settling,
    /// The settlement is durable: the client gets it.
    Settled,
    /// The claim found an outcome: the client gets that one.
    Replaying,
    /// The store refused, and gave the recorded outcome: the client gets that one.
    FencedOff,
    /// The store refused the settlement and has no outcome: the client gets *unknown*.
    Refused,
}

/// An outcome by its author, so that no two executions have the same one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Outcome {
    #[default]
    None,
    Of(u8),
    Abandoned,
}

/// What is kept for one record, and what an observer noted about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Entry {
    pub(crate) row: Option<Row>,
    /// How many attempts have arrived; also the name of the next one.
    pub(crate) arrivals: u8,
    /// The number of the latest life, from one.
    pub(crate) life: u8,
    lives: [Life; LIVES],
}

/// A record as the store keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Row {
    /// Whether it has the mismatching fingerprint.
    pub(crate) other: bool,
    pub(crate) created: u8,
    pub(crate) expires: u8,
    pub(crate) fence: u8,
    pub(crate) attempt: u8,
    pub(crate) state: RowState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum RowState {
    Leased { until: u8 },
    Held,
    Released,
    Settled(Outcome),
}

/// What an observer noted about one life of a record, kept beyond the sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Life {
    /// How often the side effect happened.
    pub(crate) executions: u8,
    /// The highest fence that was durable.
    pub(crate) fence: u8,
    /// The outcome that was durable.
    pub(crate) settled: Outcome,
    /// The outcome that a client got although it was not durable.
    pub(crate) told_early: Outcome,
}

/// What a check-then-set claim has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Seen(pub(crate) Option<Row>);

/// A request to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Message {
    pub(crate) verb: Verb,
    pub(crate) sender: Node,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Verb {
    Claim,
    Renew,
    Release,
    Hold,
    Settle,
}

// === impl World ===

impl World {
    /// Notes whether a step kept an invariant.
    pub(crate) fn judge(&mut self, invariant: Invariant, kept: bool) {
        if !kept {
            self.broken |= 1 << invariant as u16;
        }
    }

    pub(crate) fn kept(&self, invariant: Invariant) -> bool {
        self.broken & 1 << invariant as u16 == 0
    }

    pub(crate) fn entry(&self, record: u8) -> &Entry {
        &self.entries[usize::from(record)]
    }

    pub(crate) fn entry_mut(&mut self, record: u8) -> &mut Entry {
        &mut self.entries[usize::from(record)]
    }

    /// Makes worlds equal that cannot differ in what follows: nodes are interchangeable, and what no node can
    /// act upon any more is forgotten.
    #[must_use]
    pub(crate) fn canonical(mut self) -> Self {
        for node in &mut self.nodes {
            node.forget(self.now);
        }
        self.nodes.sort_unstable();
        for record in 0..RECORDS {
            let over = self.entries[record].lives_over(self.now);
            for life in 1..=over {
                let acts = |node: &Node| usize::from(node.record) == record && node.life == life;
                let sender = self.stray.map(|message| message.sender);
                if !self.nodes.iter().chain(&sender).any(acts) {
                    *self.entries[record].life_mut(life) = Life::default();
                }
            }
        }
        self
    }
}

// === impl Node ===

impl Node {
    /// Whether it believes that it may execute, or keep others from executing, if the clock allows.
    pub(crate) fn holds(&self, record: u8) -> bool {
        self.record == record && matches!(self.stage, Stage::Leased | Stage::Executed)
    }

    /// The outcome that this node will give its client.
    fn has_answer(&self) -> bool {
        matches!(self.stage, Stage::Settled | Stage::Replaying | Stage::FencedOff)
    }

    fn forget(&mut self, now: u8) {
        if !self.holds(self.record) || self.until <= now {
            self.until = 0;
        }
        if self.has_answer() {
            (self.attempt, self.fence) = (0, 0);
        }
        if matches!(self.stage, Stage::Idle | Stage::Refused) {
            *self = Self { stage: self.stage, ..Self::default() };
        }
    }

    /// Its request to the store, without what does not travel.
    pub(crate) fn message(&self, verb: Verb) -> Message {
        let sender = Node { stage: Stage::Idle, until: 0, ..*self };
        Message { verb, sender }
    }
}

// === impl Entry ===

impl Entry {
    pub(crate) fn life_mut(&mut self, life: u8) -> &mut Life {
        &mut self.lives[usize::from(life) - 1]
    }

    /// The number of the last life that is over.
    fn lives_over(&self, now: u8) -> u8 {
        match self.row {
            Some(row) if now < row.expires => self.life - 1,
            _ => self.life,
        }
    }

    pub(crate) fn lives(&self) -> &[Life] {
        &self.lives
    }
}

// === impl Verb ===

impl Verb {
    /// The state of a node that sent this and got no answer. All but a renewal it must repeat.
    pub(crate) fn unanswered(self, stage: Stage) -> Stage {
        match self {
            Self::Claim => Stage::Claiming,
            Self::Renew => stage,
            Self::Settle if stage == Stage::Unsure => stage,
            Self::Release => Stage::Releasing,
            Self::Hold => Stage::Unsure,
            Self::Settle => Stage::Settling,
        }
    }
}
