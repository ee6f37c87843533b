//! The PostgreSQL store against pgbench on the same server, with the same statements.

mod contended;
mod expiry;
mod pgbench;
mod transfers;

use std::time::Duration;

use anyhow::Context as _;
use semel_postgres::{Options, PostgresStore, migrate};
use semel_testserver::Postgres;

use crate::figures::{Line, Schedule, median, print_table};
use crate::store_load::{self as load, Keys};
use pgbench::Pgbench;

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    schedule: Schedule,
    /// Numbers of clients.
    #[arg(long, value_delimiter = ',', default_value = "16,64")]
    clients: Vec<usize>,
    /// Records that expire while claims run.
    #[arg(long, default_value_t = 1_000_000)]
    expiring: u64,
    /// Seconds in which clients hammer the same keys.
    #[arg(long, default_value_t = 30)]
    contended: u64,
    /// Only these parts (pairs, replays, transfers, expiry, contended).
    #[arg(long, value_delimiter = ',', default_value = "pairs,replays,transfers,expiry,contended")]
    parts: Vec<String>,
}

/// How many settled records replays are taken from.
const SETTLED: u64 = 100_000;

/// A server with its own defaults, and a store on it.
struct Bench<'a> {
    arguments: &'a Arguments,
    server: Postgres,
    store: PostgresStore,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        // Its defaults, but for the number of connections: three subjects have some open.
        let server = Postgres::options().setting("max_connections", "300").start()?;
        println!("{}", server.psql("SELECT version()")?.trim());
        let options = Options::from_url(&server.url())?.sweep_every(None);
        migrate(&options).await?;
        let store = options.open().await?;
        let bench = Bench { arguments, server, store };
        let lines = bench.run().await?;
        print_table(&lines);
        Ok(())
    })
}

// === impl Bench ===

impl Bench<'_> {
    async fn run(&self) -> anyhow::Result<Vec<Line>> {
        let mut lines = Vec::new();
        for &clients in &self.arguments.clients {
            if self.wants("pairs") {
                lines.push(self.pairs(clients).await?);
            }
            if self.wants("replays") {
                lines.push(self.replays(clients).await?);
            }
            if self.wants("transfers") {
                lines.extend(transfers::run(self, clients).await?);
            }
        }
        if self.wants("expiry") {
            lines.extend(expiry::run(self).await?);
        }
        if self.wants("contended") {
            lines.push(contended::run(self).await?);
        }
        Ok(lines)
    }

    fn wants(&self, part: &str) -> bool {
        self.arguments.parts.iter().any(|wanted| wanted == part)
    }

    fn seconds(&self) -> Duration {
        Duration::from_secs(self.arguments.schedule.seconds)
    }

    /// The ratio of two subjects, in the median of all rounds. In each they take turns, and change places, as the
    /// second finds the machine in another state.
    async fn in_turns(
        &self,
        names: [&str; 2],
        mut measure: impl AsyncFnMut(usize) -> anyhow::Result<f64>,
    ) -> anyhow::Result<f64> {
        let mut ratios = Vec::new();
        for _ in 0..self.arguments.schedule.rounds {
            // As it would be found on any day: no checkpoint of the round before is due.
            self.server.psql("CHECKPOINT")?;
            let mut sums = [0.0, 0.0];
            for turn in 0..self.arguments.schedule.turns {
                for subject in if turn % 2 == 0 { [0, 1] } else { [1, 0] } {
                    sums[subject] += measure(subject).await?;
                }
            }
            let [ours, theirs] = sums.map(|sum| sum / f64::from(self.arguments.schedule.turns));
            println!("{:<45} {ours:>7.0}/s   {:<30} {theirs:>7.0}/s", names[0], names[1]);
            ratios.push(ours / theirs);
        }
        Ok(median(ratios))
    }

    async fn pairs(&self, clients: usize) -> anyhow::Result<Line> {
        let pgbench = Pgbench::new(&self.server, pgbench::PAIR)?;
        let names = [format!("claim + settle, {clients} clients"), format!("pgbench, {clients}")];
        let ratio = self
            .in_turns([&names[0], &names[1]], async |subject| match subject {
                0 => load::pairs(&self.store, clients, self.seconds()).await,
                _ => pgbench.run(clients, self.arguments.schedule.seconds),
            })
            .await?;
        self.report_heap()?;
        Ok(Line {
            what: format!("claim + settle pairs/s, {clients} clients, against pgbench"),
            value: format!("{ratio:.2}"),
            asked: "at least 0.80".into(),
            reached: ratio >= 0.80,
        })
    }

    async fn replays(&self, clients: usize) -> anyhow::Result<Line> {
        self.settle_some()?;
        let pgbench = Pgbench::new(&self.server, pgbench::SELECT)?;
        let keys = Keys::Settled(SETTLED);
        let names = [format!("replay, {clients} clients"), format!("pgbench SELECT, {clients}")];
        let ratio = self
            .in_turns([&names[0], &names[1]], async |subject| match subject {
                0 => load::replays(&self.store, clients, self.seconds(), keys).await,
                _ => pgbench.run(clients, self.arguments.schedule.seconds),
            })
            .await?;
        Ok(Line {
            what: format!("replays/s, {clients} clients, against pgbench's SELECT by primary key"),
            value: format!("{ratio:.2}"),
            asked: "at least 0.80".into(),
            reached: ratio >= 0.80,
        })
    }

    /// Records that both sides find by their numbers.
    fn settle_some(&self) -> anyhow::Result<()> {
        let id = pgbench::id_sql("n");
        let sql = format!(
            "INSERT INTO semel.record
                    (id, fingerprint, owner, created, expires, fence, until, state, reply)
             SELECT {id}, {id}, gen_random_uuid(), 0, 99999999999999, 1, 0, 3,
                    decode(repeat('ab', 300), 'hex')
             FROM generate_series(1, {SETTLED}) n ON CONFLICT DO NOTHING;
             VACUUM ANALYZE semel.record"
        );
        // In two statements: VACUUM is not for transactions.
        for statement in sql.split(';') {
            self.server.psql(statement)?;
        }
        Ok(())
    }

    /// How many updates stayed in their page.
    fn report_heap(&self) -> anyhow::Result<()> {
        let sql = "SELECT pg_stat_force_next_flush();
                   SELECT round(100.0 * n_tup_hot_upd / nullif(n_tup_upd, 0), 1)
                          || ' % of ' || n_tup_upd || ' updates were HOT; '
                          || pg_relation_size(relid) / nullif(n_live_tup, 0) || ' bytes a record'
                   FROM pg_stat_user_tables WHERE relname = 'record'";
        let said = self.server.psql(sql).context("the table's figures")?;
        println!("  {}", said.trim());
        Ok(())
    }
}
