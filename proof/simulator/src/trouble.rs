//! What goes wrong on a larger scale, from its beginning to its end.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::node::Node;
use crate::plan::{Trouble, TroubleKind};
use crate::server::Server;
use crate::trace::Source;
use crate::world::World;
use crate::{Fault, Mistake};

/// Makes the trouble, and mends it.
pub(crate) async fn make(
    trouble: Trouble,
    world: World,
    server: Arc<Server>,
    nodes: Arc<[Arc<Node>]>,
) {
    let lasts = trouble.lasts;
    sleep(trouble.at).await;
    world.note(Source::Simulator, format_args!("{:?} for {lasts:?}", trouble.kind));
    match trouble.kind {
        TroubleKind::Partition { node, requests, answers } => {
            world.fault(Fault::Partition, Some(node), lasts);
            let line = &nodes[node].line;
            line.cut(requests, answers);
            sleep(lasts).await;
            line.mend(requests, answers);
        }
        TroubleKind::Outage { hangs } => {
            world.fault(Fault::Outage, None, lasts);
            server.go_down(hangs);
            sleep(lasts).await;
            server.come_back();
        }
        TroubleKind::Restart => restart(&world, &server, lasts).await,
        TroubleKind::Crash { node } => {
            world.fault(Fault::Crash, Some(node), lasts);
            nodes[node].end_process(None);
            sleep(lasts).await;
            nodes[node].start_process();
        }
        TroubleKind::Pause { node } => pause(&world, &nodes[node], lasts).await,
        TroubleKind::Shutdown { node } => {
            world.fault(Fault::Shutdown, Some(node), lasts);
            nodes[node].shut_down(lasts).await;
            nodes[node].start_process();
        }
        TroubleKind::Clock { by_ms } => set_clock(&world, by_ms),
    }
    world.note(Source::Simulator, format_args!("{:?} is over", trouble.kind));
}

async fn restart(world: &World, server: &Server, lasts: Duration) {
    let lasts = lasts.min(Duration::from_secs(1));
    world.fault(Fault::Restart, None, lasts);
    server.go_down(false);
    server.restart();
    sleep(lasts).await;
    server.come_back();
}

async fn pause(world: &World, node: &Node, lasts: Duration) {
    let Some(process) = node.process() else {
        return;
    };
    world.fault(Fault::Pause, Some(node.number), lasts);
    process.gate.pause();
    sleep(lasts).await;
    process.gate.resume();
}

fn set_clock(world: &World, by_ms: i64) {
    let fault = if by_ms < 0 { Fault::ClockBack } else { Fault::ClockForward };
    world.fault(fault, None, Duration::ZERO);
    world.clock().jump(by_ms, !world.has(Mistake::ClockBackUnseen));
    if by_ms < 0 {
        world.report(|oracle, _| {
            oracle.clock_went_back();
            Ok(())
        });
    }
}
