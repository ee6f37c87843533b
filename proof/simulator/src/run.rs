//! One run, from its seed to its end.

use std::sync::Arc;
use std::time::Duration;

use semel_core::invariants::Invariant;
use semel_engine::Answer;
use semel_store::Clock as _;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::client::{AttemptResult, Client};
use crate::node::{Node, is_idle};
use crate::oracle::require;
use crate::plan::{LATE_MAX, fingerprint};
use crate::server::Server;
use crate::world::World;
use crate::{Options, Rule, Run, trouble};

/// How long everything may take to come to its end after the faults have. An attempt in doubt tries to
/// recover its lease for five minutes.
const QUIET_MAX: Duration = Duration::from_mins(20);
/// How long the recovery of a lease whose grant was not acknowledged may take when nothing else is left to do.
const ORPHANED_MAX: Duration = Duration::from_mins(2);
/// How often that is checked.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// The interval of attempts that read the end of a key.
const PROBES: usize = 12;
/// The number of the client that reads the ends.
const PROBER: usize = 99;

/// Runs a seed.
///
/// # Panics
///
/// If no runtime can be built, or within another one.
pub fn simulate(seed: u64, options: Options) -> Run {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime of one thread needs nothing");
    let (statistics, violation, trace) = runtime.block_on(async {
        let world = World::new(seed, options);
        tokio::select! {
            biased;
            () = world.broken().cancelled() => {}
            () = live(&world) => {}
        }
        world.close()
    });
    Run { seed, statistics, violation, trace }
}

/// Everything that happens.
async fn live(world: &World) {
    let server = Arc::new(Server::new(world.clone()));
    let plan = world.plan();
    let nodes: Arc<[_]> =
        (0..plan.nodes).map(|number| Node::start(world, &server, number)).collect();
    let mut tasks = JoinSet::new();
    for trouble in &plan.troubles {
        tasks.spawn(trouble::make(*trouble, world.clone(), server.clone(), nodes.clone()));
    }
    for (number, operation) in plan.operations.iter().enumerate() {
        let client = Client { world: world.clone(), nodes: nodes.clone(), number };
        tasks.spawn(client.operate(operation.clone()));
    }
    tasks.spawn(sweep(world.clone(), server));
    while tasks.join_next().await.is_some() {}
    sleep(plan.horizon.saturating_sub(world.elapsed())).await;
    quiet_down(world, &nodes).await;
    find_orphans(world).await;
    probe_all(world, &nodes).await;
    close(world, &nodes).await;
}

/// Deletes what has expired, now and then, until the faults end.
async fn sweep(world: World, server: Arc<Server>) {
    while !world.is_calm() {
        sleep(world.plan().sweep_every).await;
        if !server.is_down() {
            // The disk never fails.
            let _ = server.sweep();
        }
    }
}

/// Waits until nothing runs any more.
async fn quiet_down(world: &World, nodes: &[Arc<Node>]) {
    let began = world.elapsed();
    // What was sent late arrives within this time, and may still be granted.
    sleep(LATE_MAX + LOOK_EVERY).await;
    let busy = || {
        let processes = nodes.iter().filter_map(|node| node.process());
        processes.map(|process| process.engine).find(|engine| !is_idle(engine))
    };
    while let Some(engine) = busy() {
        let waited = world.elapsed().saturating_sub(began);
        if waited >= QUIET_MAX {
            // Work that never ends has a name of its own.
            world.judge(|oracle, moment| oracle.ended(moment));
            world.judge(|_, moment| {
                require(Rule::Live, None, moment, false, || {
                    format!("after {waited:?} without faults: {engine:?}")
                })
            });
            return;
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Every lease whose grant was not acknowledged is recovered in the end, though no attempt is counted any more.
async fn find_orphans(world: &World) {
    let until = world.elapsed() + ORPHANED_MAX;
    while world.query(|oracle, moment| oracle.no_orphans(moment).is_err())
        && world.elapsed() < until
    {
        sleep(LOOK_EVERY).await;
    }
    world.judge(|oracle, moment| oracle.no_orphans(moment));
}

/// Every key that was used comes to an end, and the end is the same for all attempts.
async fn probe_all(world: &World, nodes: &Arc<[Arc<Node>]>) {
    let client = Client { world: world.clone(), nodes: nodes.clone(), number: PROBER };
    for key in world.query(|oracle, _| oracle.used_keys()) {
        for _ in 0..2 {
            probe(world, &client, key).await;
        }
    }
}

async fn probe(world: &World, client: &Client, key: usize) {
    let mut result = None;
    for _ in 0..PROBES {
        let live = world.query(|oracle, moment| oracle.live_request(moment, key));
        let request = live.unwrap_or_else(|| fingerprint(key, 0));
        let said = client.attempt(key, request, QUIET_MAX).await;
        match &said {
            AttemptResult::Answer(
                Answer::Executed { .. } | Answer::Replayed { .. } | Answer::Unknown { .. },
            ) => return,
            AttemptResult::Answer(Answer::InFlight { until }) => {
                let left = world.clock().now().until(*until);
                sleep(left + Duration::from_millis(1)).await;
            }
            _ => sleep(LOOK_EVERY).await,
        }
        result = Some(said);
    }
    world.judge(|_, moment| {
        require(Rule::Live, Some(key), moment, false, || {
            format!(
                "no end after {PROBES} probes: {}",
                result.map_or_else(String::new, |result| result.word())
            )
        })
    });
}

/// All nodes are shut down: nothing is left.
async fn close(world: &World, nodes: &[Arc<Node>]) {
    for node in nodes {
        let Some(process) = node.process() else {
            continue;
        };
        let report = process.engine.shutdown(Duration::from_secs(10)).await;
        world.judge(|_, moment| {
            let is_empty = report.left == 0 && is_idle(&process.engine);
            require(Invariant::Bounded, None, moment, is_empty, || {
                format!("node-{} is shut down and has {} left", node.number, report.left)
            })
        });
    }
    world.judge(|oracle, moment| oracle.ended(moment));
}
