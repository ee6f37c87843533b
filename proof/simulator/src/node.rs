use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_core::invariants::Invariant;
use semel_engine::Engine;
use semel_store::{CacheLimits, Cached, Store};

use crate::Mistake;
use crate::gate::{Gate, NodeHost};
use crate::network::{Line, RemoteStore};
use crate::oracle::require;
use crate::server::Server;
use crate::trace::Source;
use crate::world::World;

/// A node: one process after the other, each with an engine of its own, on one line to the store.
pub(crate) struct Node {
    pub(crate) number: usize,
    pub(crate) line: Arc<Line>,
    world: World,
    server: Arc<Server>,
    process: Mutex<Option<Process>>,
}

/// One life of a node. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Process {
    pub(crate) engine: Engine,
    /// By mistake, a second engine, independent of the first.
    twin: Option<Engine>,
    pub(crate) gate: Arc<Gate>,
}

// === impl Node ===

impl Node {
    pub(crate) fn start(world: &World, server: &Arc<Server>, number: usize) -> Arc<Self> {
        let node = Self {
            number,
            line: Arc::default(),
            world: world.clone(),
            server: server.clone(),
            process: Mutex::default(),
        };
        node.start_process();
        Arc::new(node)
    }

    /// The process, unless there is none right now.
    pub(crate) fn process(&self) -> Option<Process> {
        self.lock().clone()
    }

    pub(crate) fn start_process(&self) {
        let mut process = self.lock();
        if process.is_none() {
            *process = Some(self.new_process());
            self.world.note(Source::Node(self.number), format_args!("starts"));
        }
    }

    fn new_process(&self) -> Process {
        let world = &self.world;
        let remote =
            RemoteStore::new(world.clone(), self.server.clone(), self.line.clone(), self.number);
        let store: Arc<dyn Store> = if world.plan().is_cached {
            // Large enough for all that a run settles: what is pushed out would be left to chance.
            let limits =
                CacheLimits { bytes: 1 << 20, entry_bytes_max: 1 << 10, ..CacheLimits::default() };
            Arc::new(Cached::new(remote, world.clock().clone(), limits))
        } else {
            Arc::new(remote)
        };
        let gate = Gate::open();
        let engine = || {
            let host = NodeHost::new(gate.clone(), world.draw(crate::random::Random::fork));
            Engine::with_host(store.clone(), world.plan().limits, host)
        };
        let twin = world.has(Mistake::RegistryDivided).then(engine);
        Process { engine: engine(), twin, gate: gate.clone() }
    }

    /// The process ends, wherever it stands; if one is named, only that one.
    pub(crate) fn end_process(&self, named: Option<&Arc<Gate>>) {
        let is_named =
            |process: &mut Process| named.is_none_or(|gate| Arc::ptr_eq(gate, &process.gate));
        let Some(Process { engine, gate, .. }) = self.lock().take_if(is_named) else {
            return;
        };
        self.world.note(Source::Node(self.number), format_args!("ends"));
        gate.end(self.world.has(Mistake::TasksLeftBehind));
        self.world.judge(|oracle, moment| {
            oracle.node_ended(self.number);
            require(Invariant::Bounded, None, moment, is_idle(&engine), || {
                format!("node-{} ended and still counts: {engine:?}", self.number)
            })
        });
    }

    /// Shuts the process down, and ends it at its deadline.
    pub(crate) async fn shut_down(&self, deadline: Duration) {
        if let Some(process) = self.process() {
            self.world.note(Source::Node(self.number), format_args!("shuts down"));
            let report = process.engine.shutdown(deadline).await;
            self.world.note(Source::Node(self.number), format_args!("left {}", report.left));
            self.end_process(Some(&process.gate));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Process>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Process ===

impl Process {
    /// The engine that an attempt is made on.
    pub(crate) fn any_engine(&self, world: &World) -> Engine {
        let twin = self.twin.as_ref().filter(|_| world.draw(|random| random.chance(500)));
        twin.unwrap_or(&self.engine).clone()
    }
}

/// Whether the engine counts no attempt, execution or waiter any more.
pub(crate) fn is_idle(engine: &Engine) -> bool {
    engine.running() == 0 && engine.waiting() == 0
}

/// Whether the engine keeps its limits.
pub(crate) fn is_bounded(engine: &Engine, world: &World) -> bool {
    let limits = world.plan().limits;
    engine.running() <= limits.executions_max && engine.waiting() <= limits.waiters_max
}
