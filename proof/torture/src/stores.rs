//! The stores: real servers, the ways to them, and what can be done to both.

mod cluster;
mod database;
mod disk;
mod server;

use std::fmt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::ValueEnum;
use tokio::runtime::Runtime;

use crate::history::{History, Tier};
use crate::nemesis::Kind;
use crate::proxy::Proxy;
use crate::rng::Rng;

use cluster::Cluster;
use database::Database;
use disk::Disk;
use server::RedisServer;

pub(crate) use server::CLOCK_BACK_MAX;

/// Which store the gateways have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
pub enum StoreKind {
    /// A directory, and one gateway
    Embedded,
    /// One Redis server that syncs every write
    Redis,
    /// Three masters with a replica each, and `wait_replicas = 1`
    RedisCluster,
    /// One PostgreSQL server
    Postgres,
    /// PostgreSQL, with copies in Redis
    Tiered,
}

/// The servers of a run, and the ways to them. They end when this is dropped.
pub(crate) struct Stores {
    servers: Servers,
    links: Vec<Link>,
    urls: Vec<String>,
}

enum Servers {
    Embedded(Disk),
    Redis(RedisServer),
    Cluster(Cluster),
    Postgres(Database),
    Tiered(Box<(RedisServer, Database)>),
}

/// The way from gateways to a server.
pub(crate) struct Link {
    /// The gateways that use it; none named means all.
    pub(crate) gateways: Vec<usize>,
    /// True if it leads to the replay cache only, not to the primary store.
    pub(crate) is_near: bool,
    pub(crate) name: String,
    pub(crate) proxy: Proxy,
}

/// What a store is started with.
pub(crate) struct Ground<'a> {
    pub(crate) runtime: &'a Runtime,
    /// The gateway's program, which makes the tables.
    pub(crate) program: &'a Path,
    pub(crate) scratch: &'a Path,
    pub(crate) gateways: usize,
    pub(crate) seed: u64,
    /// True if a replica may be promoted without an orderly failover.
    pub(crate) fails_over: bool,
}

// === impl StoreKind ===

impl StoreKind {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Embedded, Self::Redis, Self::RedisCluster, Self::Postgres, Self::Tiered];

    /// As on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Redis => "redis",
            Self::RedisCluster => "redis-cluster",
            Self::Postgres => "postgres",
            Self::Tiered => "tiered",
        }
    }

    /// How many gateways share it.
    pub const fn gateways(self) -> usize {
        match self {
            Self::Embedded => 1,
            _ => 3,
        }
    }

    /// What it promises to keep.
    pub(crate) const fn tier(self) -> Tier {
        match self {
            Self::RedisCluster => Tier::Weak,
            _ => Tier::Strong,
        }
    }

    /// What can be done to it, besides what can be done to every gateway and network.
    pub(crate) const fn kinds(self) -> &'static [Kind] {
        match self {
            Self::Embedded => &[Kind::DiskFull],
            Self::Redis => &[
                Kind::StoreKill,
                Kind::StorePause,
                Kind::StoreRestart,
                Kind::StoreOutage,
                Kind::StoreFull,
                Kind::ClockForward,
                Kind::ClockBack,
            ],
            Self::Postgres => &[
                Kind::StoreKill,
                Kind::StorePause,
                Kind::StoreRestart,
                Kind::StoreOutage,
                Kind::ClockForward,
                Kind::ClockBack,
            ],
            Self::RedisCluster => &[
                Kind::StoreFailover,
                Kind::StorePause,
                Kind::StoreHandover,
                Kind::StoreRestart,
                Kind::StoreOutage,
                Kind::StoreFull,
            ],
            Self::Tiered => &[
                Kind::StoreKill,
                Kind::StorePause,
                Kind::StoreRestart,
                Kind::StoreOutage,
                Kind::NearKill,
                Kind::NearPause,
                Kind::ClockForward,
                Kind::ClockBack,
            ],
        }
    }
}

impl fmt::Display for StoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl Stores ===

impl Stores {
    pub(crate) fn start(kind: StoreKind, ground: &Ground<'_>) -> anyhow::Result<Self> {
        match kind {
            StoreKind::Embedded => {
                let disk = Disk::new(ground.scratch)?;
                let urls = vec![disk.url()];
                Ok(Self { servers: Servers::Embedded(disk), links: Vec::new(), urls })
            }
            StoreKind::Redis => {
                let server = RedisServer::start(true)?;
                let links = ground.links("redis", server.address())?;
                let urls = links.iter().map(redis_url).collect();
                Ok(Self { servers: Servers::Redis(server), links, urls })
            }
            StoreKind::RedisCluster => {
                let (cluster, links) = Cluster::start(ground)?;
                let urls = vec![cluster::url(&links); ground.gateways];
                Ok(Self { servers: Servers::Cluster(cluster), links, urls })
            }
            StoreKind::Postgres => {
                let database = Database::start(ground.program)?;
                let links = ground.links("postgres", database.address())?;
                let urls = links.iter().map(|link| database.url_by(link)).collect();
                Ok(Self { servers: Servers::Postgres(database), links, urls })
            }
            StoreKind::Tiered => {
                let near = RedisServer::start(false)?;
                let truth = Database::start(ground.program)?;
                let mut links = ground.links("redis", near.address())?;
                for link in &mut links {
                    link.is_near = true;
                }
                let far = ground.links("postgres", truth.address())?;
                let joined = |(near, far): (&Link, &Link)| {
                    format!("tiered:{}|{}", redis_url(near), truth.url_by(far))
                };
                let urls = links.iter().zip(&far).map(joined).collect();
                links.extend(far);
                Ok(Self { servers: Servers::Tiered(Box::new((near, truth))), links, urls })
            }
        }
    }

    /// The address of the store for a gateway.
    pub(crate) fn url(&self, gateway: usize) -> &str {
        &self.urls[gateway]
    }

    /// All ways to servers.
    pub(crate) fn links(&self) -> &[Link] {
        &self.links
    }

    /// The path of a fault. In a cluster it is the one to the current master of a pair: replicas get no requests.
    pub(crate) fn link(&self, number: usize) -> &Link {
        match &self.servers {
            Servers::Cluster(cluster) => &self.links[cluster.master(number)],
            _ => &self.links[number],
        }
    }

    /// What cannot be done here, and why.
    pub(crate) fn missing(&self) -> Option<(Kind, &str)> {
        match &self.servers {
            Servers::Embedded(disk) => disk.missing().map(|why| (Kind::DiskFull, why)),
            _ => None,
        }
    }

    /// Notes promotions, where there are replicas, for as long as something is worth watching.
    pub(crate) fn watch(&self, history: &History, is_over: &AtomicBool) {
        if let Servers::Cluster(cluster) = &self.servers {
            cluster.watch(history, is_over);
        }
    }

    /// What runs, with versions.
    pub(crate) fn versions(&self) -> String {
        match &self.servers {
            Servers::Embedded(_) => "fjall".to_owned(),
            Servers::Redis(server) => server.version(),
            Servers::Cluster(cluster) => cluster.version(),
            Servers::Postgres(database) => database.version(),
            Servers::Tiered(both) => format!("{}, {}", both.0.version(), both.1.version()),
        }
    }

    /// Breaks a server for so long, and mends it.
    pub(crate) fn strike(&self, kind: Kind, lasts: Duration, rng: &mut Rng) -> anyhow::Result<()> {
        match &self.servers {
            Servers::Embedded(disk) => disk.full_for(lasts),
            Servers::Redis(server) => server.strike(kind, lasts, rng),
            Servers::Cluster(cluster) => cluster.strike(kind, lasts, rng),
            Servers::Postgres(database) => database.strike(kind, lasts, rng),
            Servers::Tiered(both) => match kind {
                Kind::NearKill => both.0.strike(Kind::StoreKill, lasts, rng),
                Kind::NearPause => both.0.strike(Kind::StorePause, lasts, rng),
                _ => both.1.strike(kind, lasts, rng),
            },
        }
    }
}

fn redis_url(link: &Link) -> String {
    format!("redis://{}", link.proxy.address())
}

// === impl Ground ===

impl Ground<'_> {
    /// A way of its own to the server for each gateway.
    fn links(&self, name: &str, to: std::net::SocketAddr) -> anyhow::Result<Vec<Link>> {
        let mut links = Vec::new();
        for gateway in 0..self.gateways {
            let mut rng = Rng::of(self.seed, name, gateway as u64);
            let proxy = self.runtime.block_on(Proxy::start(rng.next_u64()))?;
            proxy.lead_to(Some(to));
            let name = format!("gateway {gateway} to {name}");
            links.push(Link { gateways: vec![gateway], is_near: false, name, proxy });
        }
        Ok(links)
    }
}
