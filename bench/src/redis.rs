//! The Redis store against redis-benchmark on the same server, with the same scripts.

mod redis_benchmark;
mod waiters;

use std::time::Duration;

use anyhow::Context as _;
use semel_core::Policy;
use semel_redis::{Options, RedisStore};
use semel_testserver::Redis;

use crate::figures::{Line, median, print_table};
use crate::store_load as load;
use redis_benchmark::RedisBenchmark;

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Rounds of each subject; medians are printed.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Turns of each subject in a round.
    #[arg(long, default_value_t = 4)]
    turns: u32,
    /// Seconds per turn.
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// Number of clients.
    #[arg(long, default_value_t = 64)]
    clients: usize,
    /// Only these parts (pairs, memory, waiters).
    #[arg(long, value_delimiter = ',', default_value = "pairs,memory,waiters")]
    parts: Vec<String>,
}

/// A server that writes its log once a second, and a store on it.
struct Bench<'a> {
    arguments: &'a Arguments,
    server: Redis,
    store: RedisStore,
}

/// How many settled records are weighed.
const WEIGHED: u64 = 50_000;

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let server =
            Redis::options().setting("appendonly", "yes").setting("appendfsync", "everysec");
        let server = server.start()?;
        let version = server.cli(&["INFO", "server"])?;
        println!("{}", version.lines().find(|line| line.contains("redis_version")).unwrap_or(""));
        let store = Options::from_url(&server.url())?.open().await?;
        let bench = Bench { arguments, server, store };
        print_table(&bench.run().await?);
        Ok(())
    })
}

// === impl Bench ===

impl Bench<'_> {
    async fn run(&self) -> anyhow::Result<Vec<Line>> {
        let mut lines = Vec::new();
        if self.wants("pairs") {
            lines.push(self.pairs().await?);
        }
        if self.wants("memory") {
            lines.push(self.memory().await?);
        }
        if self.wants("waiters") {
            lines.extend(waiters::run(&self.server).await?);
        }
        Ok(lines)
    }

    fn wants(&self, part: &str) -> bool {
        self.arguments.parts.iter().any(|wanted| wanted == part)
    }

    async fn pairs(&self) -> anyhow::Result<Line> {
        let Arguments { rounds, turns, seconds, clients, .. } = *self.arguments;
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
            asked: "at least 0.90",
            reached: ratio >= 0.90,
        })
    }

    /// What a settled record with a reply of 300 bytes takes of the server's memory.
    async fn memory(&self) -> anyhow::Result<Line> {
        self.server.cli(&["FLUSHALL"])?;
        let before = self.used_memory()?;
        let policy = Policy::default();
        for _ in 0..WEIGHED {
            load::pair(&self.store, &policy).await?;
        }
        let each = (self.used_memory()? - before) / WEIGHED;
        Ok(Line {
            what: "bytes of memory per settled record with a reply of 300 bytes".to_owned(),
            value: each.to_string(),
            asked: "at most 900",
            reached: each <= 900,
        })
    }

    fn used_memory(&self) -> anyhow::Result<u64> {
        let info = self.server.cli(&["INFO", "memory"])?;
        let used = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
        used.and_then(|used| used.trim().parse().ok()).context("no used_memory")
    }
}
