//! The model as stateright sees it: its steps.

use stateright::{Model, Property};

use crate::bounds::{Mistake, Network, System};
use crate::node::Delivery;
use crate::properties;
use crate::state::{Entry, Node, RECORDS, Stage, Verb, World};
use crate::store;

/// One step of the system. Nodes are named by their place in the sorted world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Tick,
    Sweep(u8),
    Arrive(usize, u8, Delivery),
    Send(usize, Verb, Delivery),
    Execute(usize),
    Answer(usize),
    Crash(usize),
    StrayLands,
}

impl Model for System {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![World::default()]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        if world.now < self.bounds.end {
            steps.push(Step::Tick);
        }
        let expired = |entry: &Entry| entry.row.is_some_and(|row| row.expires <= world.now);
        let swept = (0..).zip(&world.entries).filter(|(_, e)| expired(e));
        steps.extend(swept.map(|(record, _)| Step::Sweep(record)));
        if world.stray.is_some() {
            steps.push(Step::StrayLands);
        }
        self.arrivals(world, steps);
        for (place, node) in world.nodes.iter().enumerate() {
            self.node_steps(world, place, node, steps);
        }
    }

    fn next_state(&self, before: &World, step: Step) -> Option<World> {
        let mut world = *before;
        match step {
            Step::Tick => world.now += 1,
            Step::Sweep(record) => store::sweep(&mut world, record),
            Step::Arrive(node, record, how) => self.arrive(&mut world, node, record, how),
            Step::Send(node, verb, how) => self.send(&mut world, node, verb, how),
            Step::Execute(node) => self.execute(&mut world, node),
            Step::Answer(node) => Self::answer(&mut world, node),
            Step::Crash(node) => world.nodes[node] = Node::default(),
            Step::StrayLands => {
                let message = world.stray.take()?;
                drop(self.land(&mut world, &message));
            }
        }
        let world = world.canonical();
        (world != *before).then_some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::of(self.policy.on_abandoned(), self.bounds.network)
    }
}

impl System {
    fn arrivals(&self, world: &World, steps: &mut Vec<Step>) {
        // Idle nodes are alike; the first will do.
        let idle = |node: &Node| node.stage == Stage::Idle;
        let Some(node) = world.nodes.iter().position(idle) else {
            return;
        };
        for record in 0..RECORDS {
            if world.entries[record].arrivals < self.bounds.arrivals[record] {
                let record = u8::try_from(record).expect("few records");
                let deliveries = self.deliveries(world).iter();
                steps.extend(deliveries.map(|how| Step::Arrive(node, record, *how)));
            }
        }
    }

    fn node_steps(&self, world: &World, place: usize, node: &Node, steps: &mut Vec<Step>) {
        if node.stage == Stage::Leased {
            steps.push(Step::Execute(place));
        }
        if self.may_answer(node) {
            steps.push(Step::Answer(place));
        }
        if !matches!(node.stage, Stage::Idle | Stage::Refused) {
            steps.push(Step::Crash(place));
        }
        for verb in self.verbs(node) {
            let deliveries = self.deliveries(world).iter();
            steps.extend(deliveries.map(|how| Step::Send(place, *verb, *how)));
        }
    }

    fn deliveries(&self, world: &World) -> &'static [Delivery] {
        match self.bounds.network {
            // A claim in two halves is found out without the network's help.
            _ if self.mistake == Mistake::CheckThenSet => &Delivery::ALL[..1],
            Network::Strays if world.stray.is_none() => &Delivery::ALL,
            Network::LosesReplies | Network::Strays => &Delivery::ALL[..2],
        }
    }
}
