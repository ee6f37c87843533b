//! Redis: several servers that share the keys.

use std::time::Duration;

use super::{Redis, RedisOptions};
use crate::Error;
use crate::port;
use crate::waiting::wait_for;

const SLOTS: usize = 16_384;
const JOIN_LIMIT: Duration = Duration::from_mins(1);

/// A private Redis Cluster.
#[derive(Debug)]
pub struct RedisCluster {
    masters: usize,
    servers: Vec<Redis>,
}

// === impl RedisCluster ===

impl RedisCluster {
    /// Starts so many masters, with so many replicas each, and waits until all agree.
    pub fn start(masters: usize, replicas: usize, options: &RedisOptions) -> Result<Self, Error> {
        Self::start_each(masters, replicas, |_, clustered| clustered.on_top_of(options).start())
    }

    /// The same, but `start` starts each server by its number, in the order of
    /// [`servers`](Self::servers), with what it is given and more.
    pub fn start_each(
        masters: usize,
        replicas: usize,
        mut start: impl FnMut(usize, RedisOptions) -> Result<Redis, Error>,
    ) -> Result<Self, Error> {
        let mut servers = Vec::new();
        for number in 0..masters * (1 + replicas) {
            let clustered = Redis::options()
                .setting("cluster-enabled", "yes")
                .setting("cluster-port", port::spare()?.to_string());
            servers.push(start(number, clustered)?);
        }
        let cluster = Self { masters, servers };
        cluster.join()?;
        Ok(cluster)
    }

    /// `redis+cluster://HOST:PORT,…`.
    pub fn url(&self) -> String {
        let hosts: Vec<String> =
            self.servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    /// All of them: those that began as masters, and then the replicas of each in turn.
    pub fn servers(&self) -> &[Redis] {
        &self.servers
    }

    /// Those that began as masters.
    pub fn masters(&self) -> &[Redis] {
        &self.servers[..self.masters]
    }

    /// Those that began as replicas of a master.
    pub fn replicas_of(&self, master: usize) -> impl Iterator<Item = &Redis> {
        self.servers[self.masters..].iter().skip(master).step_by(self.masters)
    }

    /// Waits until all running servers agree that every slot is served.
    pub fn wait_until_whole(&self) -> Result<(), Error> {
        let is_whole = |server: &Redis| match server.cli(&["CLUSTER", "INFO"]) {
            Ok(info) => info.contains("cluster_state:ok"),
            // One that was killed by the test.
            Err(Error::Failed { output, .. }) => output.contains("Connection refused"),
            Err(_) => false,
        };
        wait("a cluster that agrees", || self.servers.iter().all(is_whole))
    }

    fn join(&self) -> Result<(), Error> {
        for (number, server) in self.servers.iter().enumerate() {
            server.cli(&["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()])?;
            if number < self.masters {
                let first = number * SLOTS / self.masters;
                let last = (number + 1) * SLOTS / self.masters - 1;
                let range = [first.to_string(), last.to_string()];
                server.cli(&["CLUSTER", "ADDSLOTSRANGE", &range[0], &range[1]])?;
            }
        }
        let [first, others @ ..] = self.servers.as_slice() else {
            return Ok(());
        };
        for server in others {
            let bus = server.setting("cluster-port").unwrap_or_default();
            first.cli(&["CLUSTER", "MEET", "127.0.0.1", &server.port().to_string(), bus])?;
        }
        let all = format!("cluster_known_nodes:{}", self.servers.len());
        let knows = |server: &Redis| {
            server
                .cli(&["CLUSTER", "INFO"])
                .is_ok_and(|info| info.lines().any(|line| line.trim() == all))
        };
        wait("servers that know each other", || self.servers.iter().all(knows))?;
        for (number, replica) in self.servers[self.masters..].iter().enumerate() {
            let id = self.servers[number % self.masters].cli(&["CLUSTER", "MYID"])?;
            // It may not know its master yet.
            wait("a replica", || replica.cli(&["CLUSTER", "REPLICATE", &id]).is_ok())?;
        }
        let follows = |replica: &Redis| {
            replica
                .cli(&["INFO", "replication"])
                .is_ok_and(|info| info.contains("master_link_status:up"))
        };
        wait("replicas that follow", || self.servers[self.masters..].iter().all(follows))?;
        self.wait_until_whole()
    }
}

fn wait(what: &str, holds: impl Fn() -> bool) -> Result<(), Error> {
    let seen = wait_for(JOIN_LIMIT, || holds().then_some(()));
    seen.ok_or_else(|| Error::TimedOut { what: what.to_owned(), limit: JOIN_LIMIT })
}
