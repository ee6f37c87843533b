//! A subject that runs, with what it needs.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use semel_testserver::{Postgres, Redis};

use super::roster::{Entry, How, Store};
use crate::http::subjects::{Kind, Layer, Subject};
use crate::http::tools::Tools;
use crate::http::upstream::Upstream;
use crate::redis::everysec;

/// What all entrants share.
pub(crate) struct Ground<'a> {
    pub(crate) tools: &'a Tools,
    pub(crate) scratch: &'a Path,
    pub(crate) postgres: Option<Postgres>,
}

/// Each has an app or upstream of its own, and a Redis of its own, so that it finds no data of another. Dropped in
/// this order.
pub(crate) struct Entrant {
    pub(crate) entry: &'static Entry,
    pub(crate) subject: Subject,
    behind: Option<Behind>,
    pub(crate) redis: Option<Redis>,
}

/// What a proxy is before.
enum Behind {
    Plain(Upstream),
    App(Subject),
}

// === impl Ground ===

impl<'a> Ground<'a> {
    /// Starts what these entries share.
    pub(crate) fn prepare(
        entries: &[&Entry],
        tools: &'a Tools,
        scratch: &'a Path,
    ) -> anyhow::Result<Self> {
        let wanted = entries.iter().any(|entry| entry.how == How::Gateway(Store::Postgres));
        let postgres = wanted.then(postgres).transpose()?;
        Ok(Self { tools, scratch, postgres })
    }
}

// === impl Entrant ===

impl Entrant {
    pub(crate) fn start(entry: &'static Entry, ground: &Ground<'_>) -> anyhow::Result<Self> {
        let redis = needs_redis(entry).then(|| everysec().start()).transpose()?;
        let behind = Behind::start(entry, ground.scratch)?;
        let subject = subject(entry, behind.as_ref(), redis.as_ref(), ground)
            .with_context(|| format!("{} does not start", entry.name))?;
        Ok(Self { entry, subject, behind, redis })
    }

    /// Starts it again after a kill, with the same records.
    pub(crate) fn start_again(&mut self, ground: &Ground<'_>) -> anyhow::Result<()> {
        self.subject = subject(self.entry, self.behind.as_ref(), self.redis.as_ref(), ground)?;
        Ok(())
    }

    /// Processor time of all that runs for it.
    pub(crate) fn spent(&self) -> Duration {
        let behind = match &self.behind {
            Some(Behind::Plain(upstream)) => upstream.cpu_time(),
            Some(Behind::App(app)) => app.cpu_time(),
            None => Duration::ZERO,
        };
        self.subject.cpu_time() + behind
    }

    /// The number of its Redis process, whose forks rewrite its log.
    pub(crate) fn redis_process(&self) -> Option<u32> {
        let said = self.redis.as_ref()?.cli(&["INFO", "server"]).ok()?;
        said.lines().find_map(|line| line.trim().strip_prefix("process_id:")?.parse().ok())
    }
}

// === impl Behind ===

impl Behind {
    fn start(entry: &Entry, scratch: &Path) -> anyhow::Result<Option<Self>> {
        let name = format!("{}-behind", entry.slug());
        Ok(match entry.how {
            How::App(_) => None,
            How::Before(app) => Some(Self::App(Subject::app(app, 0, &name, scratch)?)),
            How::Upstream | How::Nginx(_) | How::Gateway(_) => {
                Some(Self::Plain(Upstream::start_as(&name, scratch)?))
            }
        })
    }

    fn address(&self) -> std::net::SocketAddr {
        match self {
            Self::Plain(upstream) => upstream.address,
            Self::App(app) => app.address,
        }
    }
}

fn subject(
    entry: &Entry,
    behind: Option<&Behind>,
    redis: Option<&Redis>,
    ground: &Ground<'_>,
) -> anyhow::Result<Subject> {
    let (tools, scratch, name) = (ground.tools, ground.scratch, entry.slug());
    let port = redis.map_or(0, Redis::port);
    let upstream = || behind.map(Behind::address).context("nothing is behind it");
    let kind = match entry.how {
        How::App(layer) => return Subject::app(layer, port, &name, scratch),
        How::Upstream => return Ok(Subject::direct(upstream()?)),
        How::Nginx(workers) => {
            let kind = Kind::Nginx(workers.count());
            return Subject::start(kind, tools, upstream()?, scratch);
        }
        How::Gateway(Store::Postgres) => {
            let server = ground.postgres.as_ref().context("no PostgreSQL was started")?;
            let settings = format!("store = \"{}\"\n", server.url());
            let program = &tools.semel;
            let kind = Kind::Postgres;
            return Subject::gateway_with(kind, &name, &settings, program, upstream()?, scratch);
        }
        How::Gateway(Store::Embedded) => Kind::Power,
        How::Gateway(Store::Redis) | How::Before(_) => Kind::Redis(port),
    };
    Subject::gateway(kind, &name, &tools.semel, upstream()?, scratch)
}

fn needs_redis(entry: &Entry) -> bool {
    match entry.how {
        How::Gateway(store) => store == Store::Redis,
        How::Before(_) => true,
        How::App(layer) => entry.protects() && layer != Layer::AxumIdempotent,
        How::Upstream | How::Nginx(_) => false,
    }
}

/// A server with its own defaults, but for the number of connections, and Semel's tables in it.
fn postgres() -> anyhow::Result<Postgres> {
    let server = Postgres::options().setting("max_connections", "300").start()?;
    let options = semel_postgres::Options::from_url(&server.url())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(semel_postgres::migrate(&options))?;
    Ok(server)
}
