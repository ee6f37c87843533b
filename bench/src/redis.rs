//! The Redis store against redis-benchmark on the same server, with the same scripts; gateways and
//! apps on it; and how it grows.

mod memory;
mod over_http;
mod redis_benchmark;
mod scale;
mod waiters;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use semel_redis::{Options, RedisStore};
use semel_testserver::{Redis, RedisOptions};

use crate::figures::{Line, Schedule, median, print_table};
use crate::store_load as load;
use redis_benchmark::RedisBenchmark;

const PARTS: [&str; 5] = ["pairs", "memory", "http", "waiters", "scale"];

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    schedule: Schedule,
    /// Number of clients.
    #[arg(long, default_value_t = 64)]
    clients: usize,
    /// Only these parts [default: all of pairs, memory, http, waiters, scale]
    #[arg(long, value_delimiter = ',', hide_default_value = true, default_values = PARTS)]
    parts: Vec<String>,
    /// Where gateways keep what is compared with Redis: a directory for scratch files.
    #[arg(long, default_value = ".")]
    directory: PathBuf,
    /// The gateway to measure [default: built from these sources]
    #[arg(long, value_name = "PROGRAM")]
    semel: Option<PathBuf>,
}

/// A server that writes its log once a second, and a store on it.
struct Bench<'a> {
    arguments: &'a Arguments,
    server: Redis,
    store: RedisStore,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    for part in &arguments.parts {
        ensure!(PARTS.contains(&part.as_str()), "no such part: {part}; there are {PARTS:?}");
    }
    crate::http::stop::listen()?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let server = everysec().start()?;
        let version = server.cli(&["INFO", "server"])?;
        println!("{}", version.lines().find(|line| line.contains("redis_version")).unwrap_or(""));
        let store = Options::from_url(&server.url())?.open().await?;
        let bench = Bench { arguments, server, store };
        print_table(&bench.run().await?);
        Ok(())
    })
}

/// How a server should be set that many rely on.
pub(crate) fn everysec() -> RedisOptions {
    Redis::options().setting("appendonly", "yes").setting("appendfsync", "everysec")
}

/// A figure of `INFO`.
fn info(server: &Redis, section: &str, name: &str) -> anyhow::Result<f64> {
    let said = server.cli(&["INFO", section])?;
    let figure = said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    figure.and_then(|figure| figure.trim().parse().ok()).with_context(|| format!("no {name}"))
}

// === impl Bench ===

impl Bench<'_> {
    async fn run(&self) -> anyhow::Result<Vec<Line>> {
        let mut lines = Vec::new();
        if self.wants("pairs") {
            lines.push(self.pairs().await?);
        }
        if self.wants("memory") {
            lines.push(memory::run(self).await?);
        }
        if self.wants("http") {
            lines.extend(over_http::run(self.arguments)?);
        }
        if self.wants("waiters") {
            lines.extend(waiters::run(&self.server).await?);
        }
        if self.wants("scale") {
            scale::run(self.arguments).await?;
        }
        Ok(lines)
    }

    fn wants(&self, part: &str) -> bool {
        self.arguments.parts.iter().any(|wanted| wanted == part)
    }

    async fn pairs(&self) -> anyhow::Result<Line> {
        let Schedule { rounds, turns, seconds } = self.arguments.schedule;
        let clients = self.arguments.clients;
        let theirs = RedisBenchmark::new(&self.server, clients)?;
        let mut ratios = Vec::new();
        for _ in 0..rounds {
            let mut sums = [0.0, 0.0];
            for turn in 0..turns {
                self.server.cli(&["FLUSHALL"])?;
                for subject in if turn % 2 == 0 { [0, 1] } else { [1, 0] } {
                    sums[subject] += match subject {
                        0 => {
                            load::pairs(&self.store, clients, Duration::from_secs(seconds)).await?
                        }
                        _ => theirs.pairs(seconds)?,
                    };
                }
            }
            let [ours, others] = sums.map(|sum| sum / f64::from(turns));
            println!("claim + settle {ours:>7.0}/s   redis-benchmark {others:>7.0}/s");
            ratios.push(ours / others);
        }
        let ratio = median(ratios);
        Ok(Line {
            what: format!("claim + settle pairs/s, {clients} clients, against redis-benchmark"),
            value: format!("{ratio:.2}"),
            asked: "at least 0.90".into(),
            reached: ratio >= 0.90,
        })
    }
}
