//! A Redis Cluster of six: three masters, a replica each.
//!
//! Each server announces the port of a proxy instead of its own, so gateways go through the proxies, and so does
//! replication. The cluster bus does not.

mod roles;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use semel_testserver::{Redis, RedisCluster};

use super::server::{Outage, fill, make_room, version};
use super::{Ground, Link};
use crate::history::History;
use crate::nemesis::Kind;
use crate::proxy::Proxy;
use crate::rng::Rng;
use crate::stop;
use crate::time::Clock;

const MASTERS: usize = 3;
const SERVERS: usize = MASTERS * 2;
const NODE_TIMEOUT_MS: &str = "1000";
/// The node timeout for runs without promotions: longer than any pause, so that a stalled server only counts as slow.
/// But not much longer: there is no new vote about a master for twice as long, and a replica does not ask again for
/// four times as long, not even for an orderly failover.
const NODE_TIMEOUT_STEADY_MS: &str = "6000";
const LIMIT: Duration = Duration::from_mins(1);
const PROMOTION: Duration = Duration::from_secs(10);
/// Servers give up a handover after 5 s. Until then the master blocks writing clients.
const HANDOVER: Duration = Duration::from_secs(6);
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// By then a handover that has happened was seen.
const SEEN: Duration = roles::LOOK_EVERY.saturating_mul(5);

pub(super) struct Cluster {
    nodes: RedisCluster,
    /// True if a replica may take over by itself.
    fails_over: bool,
    /// How many handovers there were.
    handovers: AtomicUsize,
    /// The server of the current orderly failover, if there is one.
    asked: Mutex<Option<usize>>,
    /// The masters, as last seen.
    is_master: [AtomicBool; SERVERS],
}

/// The address of the whole cluster, for gateways.
pub(super) fn url(links: &[Link]) -> String {
    let hosts: Vec<String> = links.iter().map(|link| link.proxy.address().to_string()).collect();
    format!("redis+cluster://{}?wait_replicas=1", hosts.join(","))
}

// === impl Cluster ===

impl Cluster {
    pub(super) fn start(ground: &Ground<'_>) -> anyhow::Result<(Self, Vec<Link>)> {
        let mut links = Vec::new();
        for number in 0..SERVERS {
            let mut rng = Rng::of(ground.seed, "node", number as u64);
            let proxy = ground.runtime.block_on(Proxy::start(rng.next_u64()))?;
            let name = format!("all to node {number}");
            links.push(Link { gateways: Vec::new(), is_near: false, name, proxy });
        }
        let fails_over = ground.fails_over;
        let (node_timeout, no_failover) =
            if fails_over { (NODE_TIMEOUT_MS, "no") } else { (NODE_TIMEOUT_STEADY_MS, "yes") };
        let nodes = RedisCluster::start_each(MASTERS, 1, |number, clustered| {
            let proxy = &links[number].proxy;
            let server = clustered
                .setting("appendonly", "yes")
                .setting("appendfsync", "always")
                .setting("cluster-node-timeout", node_timeout)
                .setting("cluster-replica-no-failover", no_failover)
                .setting("cluster-announce-ip", "127.0.0.1")
                .setting("cluster-announce-port", proxy.address().port().to_string())
                .start()?;
            proxy.lead_to(Some(([127, 0, 0, 1], server.port()).into()));
            Ok(server)
        })?;
        let is_master = std::array::from_fn(|number| AtomicBool::new(number < MASTERS));
        let (handovers, asked) = (AtomicUsize::new(0), Mutex::default());
        Ok((Self { nodes, fails_over, handovers, asked, is_master }, links))
    }

    pub(super) fn version(&self) -> String {
        version(&self.nodes.servers()[0])
    }

    pub(super) fn strike(&self, kind: Kind, lasts: Duration, rng: &mut Rng) -> anyhow::Result<()> {
        let (master, replica) = self.pair(rng.below(MASTERS))?;
        match kind {
            Kind::StoreFailover => {
                master.kill()?;
                stop::sleep(lasts);
                // If it is back before the others have noticed, there is no promotion. And a replica that was cut off
                // for too long is never promoted.
                wait_for_promotion(replica, PROMOTION);
                master.start_again()?;
            }
            Kind::StorePause => {
                let server = if rng.percent(50) { master } else { replica };
                server.pause()?;
                stop::sleep(lasts);
                server.resume()?;
            }
            Kind::StoreOutage => {
                let outage = Outage::draw(rng);
                // The replica first, so that it does not take over.
                for server in [replica, master] {
                    outage.begin(server)?;
                }
                stop::sleep(lasts);
                for server in [master, replica] {
                    outage.end(server)?;
                }
            }
            Kind::StoreFull => {
                self.nodes.servers().iter().try_for_each(fill)?;
                stop::sleep(lasts);
                self.nodes.servers().iter().try_for_each(make_room)?;
            }
            Kind::StoreHandover => return self.hand_over_next(),
            Kind::StoreRestart => {
                replica.stop()?;
                replica.start_again()?;
            }
            other => bail!("{other} cannot be done to a cluster"),
        }
        self.wait_until_whole()
    }

    /// An orderly failover: the master waits until its replica has everything. The pairs take turns, as a replica
    /// that has just taken over cannot get new votes, and may try with its old ones.
    fn hand_over_next(&self) -> anyhow::Result<()> {
        let number = self.handovers.fetch_add(1, Ordering::Relaxed) % MASTERS;
        let (_, replica) = self.pair(number)?;
        let servers = self.nodes.servers();
        self.ask(servers.iter().position(|server| server.port() == replica.port()));
        // It may be refused, if the replica has not caught up, or come to nothing, if the others do not vote.
        // Until that is clear all looks whole.
        if replica.cli(&["CLUSTER", "FAILOVER"]).is_ok() {
            wait_for_promotion(replica, HANDOVER);
        }
        let whole = self.wait_until_whole();
        stop::sleep(SEEN);
        self.ask(None);
        whole
    }

    fn ask(&self, server: Option<usize>) {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = server;
    }

    /// The master of one of the pairs, by its number among all servers.
    pub(super) fn master(&self, number: usize) -> usize {
        let (one, other) = (number % MASTERS, number % MASTERS + MASTERS);
        let is_other = self.is_master[other].load(Ordering::Relaxed);
        if is_other && !self.is_master[one].load(Ordering::Relaxed) { other } else { one }
    }

    /// Records promotions, and the current masters.
    pub(super) fn watch(&self, history: &History, is_over: &AtomicBool) {
        let address = |server: &Redis| ([127, 0, 0, 1], server.port()).into();
        let servers: Vec<_> = self.nodes.servers().iter().map(address).collect();
        let is_orderly = |number: usize| {
            self.is_master[number].store(true, Ordering::Relaxed);
            self.is_master[(number + MASTERS) % SERVERS].store(false, Ordering::Relaxed);
            // Without automatic failover, every promotion is an orderly one, however long ago it was requested.
            let asked = *self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            !self.fails_over || asked == Some(number)
        };
        roles::watch(&servers, |number| (number + MASTERS) % SERVERS, is_orderly, history, is_over);
    }

    /// A master and its replica, whichever is which by now.
    fn pair(&self, number: usize) -> anyhow::Result<(&Redis, &Redis)> {
        let one = &self.nodes.masters()[number];
        let other = self.nodes.replicas_of(number).next().context("a replica")?;
        Ok(if role(one) == "master" { (one, other) } else { (other, one) })
    }

    /// Every slot is served, and every master has its replica.
    fn wait_until_whole(&self) -> anyhow::Result<()> {
        self.nodes.wait_until_whole()?;
        for number in 0..MASTERS {
            eventually("each master has its replica", LIMIT, || {
                self.pair(number).is_ok_and(|(master, _)| {
                    let info = master.cli(&["INFO", "replication"]).unwrap_or_default();
                    // One that still copies everything could not take over.
                    info.contains("connected_slaves:1") && info.contains("state=online")
                })
            })?;
        }
        Ok(())
    }
}

fn role(server: &Redis) -> String {
    let info = server.cli(&["INFO", "replication"]).unwrap_or_default();
    info.lines().find_map(|line| line.strip_prefix("role:")).unwrap_or_default().trim().to_owned()
}

/// Not all expected promotions happen, so nothing fails then.
fn wait_for_promotion(replica: &Redis, limit: Duration) {
    let _ = eventually("the replica takes over", limit, || role(replica) == "master");
}

fn eventually(what: &str, limit: Duration, holds: impl Fn() -> bool) -> anyhow::Result<()> {
    let clock = Clock::start();
    while !holds() {
        stop::check()?;
        ensure!(clock.elapsed() < limit, "waited {limit:?} for this: {what}");
        thread::sleep(BETWEEN_LOOKS);
    }
    Ok(())
}
