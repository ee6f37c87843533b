//! Breaks things, one after the other, and mends them.

use std::thread;
use std::time::Duration;

use semel_testserver::{Redis, RedisCluster};

use super::LEASE;
use super::fleet::Fleet;
use super::history::History;
use crate::support::{Server, eventually, now};

/// The name of a fault and its function; the number selects the target.
pub(super) type Fault<S> = (&'static str, fn(&S, usize));

/// A server that can be broken in ways of its own.
pub(super) trait Breakable: Server + Sync {
    /// What can be done to it, each with its name; each ends when the server can be used again.
    const FAULTS: &'static [Fault<Self>];
}

/// Breaks a fleet and its server.
pub(super) struct Nemesis<'a, S> {
    fleet: &'a Fleet,
    server: &'a S,
    history: &'a History,
}

/// Long enough for a verb to be given up.
const LONG: Duration = Duration::from_millis(2_500);
const SHORT: Duration = Duration::from_millis(300);
/// A replica that asked for votes in vain gives up after five seconds, and may be asked again.
const ASK_AGAIN: Duration = Duration::from_secs(6);

impl Breakable for Redis {
    const FAULTS: &'static [Fault<Self>] = &[
        ("Redis killed", |server, _| {
            Server::kill(server);
            thread::sleep(SHORT);
            Server::start_again(server);
        }),
        ("Redis frozen", |server, _| frozen(server, LONG)),
        ("Redis restarted", |server, _| {
            Server::stop(server);
            Server::start_again(server);
        }),
        ("Redis slow", |server, _| frozen(server, SHORT)),
    ];
}

impl Breakable for RedisCluster {
    const FAULTS: &'static [Fault<Self>] = &[
        ("a master killed", |cluster, turn| failed_over(cluster, turn)),
        ("a server frozen", |cluster, turn| {
            let server = &cluster.servers()[turn % cluster.servers().len()];
            frozen(server, SHORT);
            whole(cluster);
        }),
        ("a master handed over", |cluster, turn| handed_over(cluster, turn)),
    ];
}

fn frozen(server: &Redis, time: Duration) {
    Server::pause(server);
    thread::sleep(time);
    Server::resume(server);
}

fn role(server: &Redis) -> String {
    let info = server.cli(&["INFO", "replication"]).unwrap_or_default();
    info.lines().find_map(|line| line.strip_prefix("role:")).unwrap_or_default().trim().to_owned()
}

/// The pair of a master and its replica, whichever is which by now.
fn pair(cluster: &RedisCluster, turn: usize) -> (&Redis, &Redis) {
    let number = turn % cluster.masters().len();
    let (one, other) = (&cluster.masters()[number], cluster.replicas_of(number).next());
    let other = other.expect("a replica");
    if role(one) == "master" { (one, other) } else { (other, one) }
}

/// Waits until every master has its replica again.
fn whole(cluster: &RedisCluster) {
    cluster.wait_until_whole().expect("a cluster");
    for number in 0..cluster.masters().len() {
        eventually("each master has its replica", || {
            let (master, _) = pair(cluster, number);
            let info = master.cli(&["INFO", "replication"]).ok()?;
            info.contains("connected_slaves:1").then_some(())
        });
    }
}

fn failed_over(cluster: &RedisCluster, turn: usize) {
    let (master, replica) = pair(cluster, turn);
    Server::kill(master);
    promote(replica, &["CLUSTER", "FAILOVER", "FORCE"]);
    Server::start_again(master);
    whole(cluster);
}

fn handed_over(cluster: &RedisCluster, turn: usize) {
    let (_, replica) = pair(cluster, turn);
    promote(replica, &["CLUSTER", "FAILOVER"]);
    whole(cluster);
}

fn promote(replica: &Redis, command: &[&str]) {
    let mut asked = None;
    eventually("the replica takes over", || {
        if asked.is_none_or(|asked| now() - asked > ASK_AGAIN) {
            replica.cli(command).expect("a replica that may");
            asked = Some(now());
        }
        (role(replica) == "master").then_some(())
    });
}

// === impl Nemesis ===

impl<'a, S: Breakable> Nemesis<'a, S> {
    pub(super) fn new(fleet: &'a Fleet, server: &'a S, history: &'a History) -> Self {
        Self { fleet, server, history }
    }

    /// So many faults: of gateways and of the server in turns, with a little peace in between.
    pub(super) fn strike(&self, faults: usize) {
        for turn in 0..faults {
            thread::sleep(SHORT * 2);
            let began = now();
            let what = match turn % 4 {
                0 => {
                    self.fleet.pause(0);
                    thread::sleep(LEASE * 5 / 2);
                    self.fleet.resume(0);
                    "a gateway frozen"
                }
                2 => {
                    self.fleet.kill(1 + turn / 4 % 2);
                    "a gateway killed"
                }
                _ => {
                    let (what, strike) = S::FAULTS[turn / 2 % S::FAULTS.len()];
                    strike(self.server, turn / 2);
                    what
                }
            };
            self.history.broke(what, began);
        }
        thread::sleep(SHORT * 2);
    }
}
