//! The clients: they have things done, retry until they know, and misbehave.

mod answered;
mod client;
mod misbehave;
mod target;
mod wire;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::history::History;
use crate::rng::Rng;

use answered::Answered;
use client::Client;
pub(crate) use target::Target;

/// How many credentials there are.
pub(crate) const SCOPES: u8 = 4;
/// How long a live gateway may be in doubt about a lease whose grant was not acknowledged, when all
/// faults are over.
pub(crate) const DOUBT: Duration = Duration::from_secs(9);
/// All last reads together must be done by then. What was not read until then never came to its end.
const READS_LIMIT: Duration = Duration::from_secs(90);
/// Of a hundred requests, how many go to a gateway that did not answer lately.
const DOUBTED_PERCENT: u64 = 4;

/// What all clients share.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) history: History,
    gateways: Vec<SocketAddr>,
    /// Which gateways did not answer the last time.
    is_doubted: Vec<AtomicBool>,
    next_request: AtomicU64,
    next_operation: AtomicU64,
    is_over: AtomicBool,
}

/// Clients at work.
pub(crate) struct Crew {
    world: Arc<World>,
    clients: Vec<JoinHandle<HashSet<Target>>>,
}

// === impl World ===

impl World {
    pub(crate) fn new(seed: u64, history: History, gateways: Vec<SocketAddr>) -> Self {
        Self {
            seed,
            history,
            is_doubted: gateways.iter().map(|_| AtomicBool::new(false)).collect(),
            gateways,
            next_request: AtomicU64::new(1),
            next_operation: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed) || crate::stop::is_stopped()
    }

    /// One of the gateways; preferably one that answers, or all clients would wait for those that do not.
    fn gateway(&self, rng: &mut Rng) -> usize {
        let mut chosen = rng.below(self.gateways.len());
        for _ in 0..4 {
            let is_doubted = self.is_doubted[chosen].load(Ordering::Relaxed);
            if !is_doubted || rng.percent(DOUBTED_PERCENT) {
                break;
            }
            chosen = rng.below(self.gateways.len());
        }
        chosen
    }

    fn note_answered(&self, gateway: usize, has_answered: bool) {
        self.is_doubted[gateway].store(!has_answered, Ordering::Relaxed);
    }
}

// === impl Crew ===

impl Crew {
    /// So many clients begin.
    pub(crate) fn start(runtime: &Runtime, world: &Arc<World>, clients: usize) -> Self {
        let begin = |number| {
            let mut client = Client::new(world.clone(), number);
            runtime.spawn(async move {
                client.work().await;
                client.into_touched()
            })
        };
        let clients = (0..clients as u64).map(begin).collect();
        Self { world: world.clone(), clients }
    }

    /// They finish what they are at; all records they had to do with.
    pub(crate) async fn stop(self) -> anyhow::Result<Vec<Target>> {
        self.world.is_over.store(true, Ordering::Relaxed);
        let mut touched = HashSet::new();
        for client in self.clients {
            touched.extend(client.await?);
        }
        let mut touched: Vec<Target> = touched.into_iter().collect();
        touched.sort();
        Ok(touched)
    }
}

/// Requests every record from every gateway, until there is a final answer or the time is over: for one, or for all.
/// Returns those with an unknown outcome.
pub(crate) async fn read_all(
    world: &Arc<World>,
    targets: Vec<Target>,
    clients: usize,
) -> anyhow::Result<Vec<Target>> {
    let queue = Arc::new(Mutex::new(targets));
    let until = world.history.clock().elapsed() + READS_LIMIT;
    let readers: Vec<JoinHandle<Vec<Target>>> = (0..clients as u64)
        .map(|number| {
            let queue = queue.clone();
            // Their numbers are not those of the clients, and so are their draws.
            let mut client = Client::new(world.clone(), 1_000 + number);
            tokio::spawn(async move {
                let mut unknown = Vec::new();
                while let Some(target) = pop(&queue).filter(|_| client.may_read(until)) {
                    if client.read(&target, until).await == Answered::Unknown {
                        unknown.push(target);
                    }
                }
                unknown
            })
        })
        .collect();
    let mut unknown = Vec::new();
    for reader in readers {
        unknown.extend(reader.await?);
    }
    Ok(unknown)
}

fn pop(queue: &Mutex<Vec<Target>>) -> Option<Target> {
    queue.lock().unwrap_or_else(PoisonError::into_inner).pop()
}
