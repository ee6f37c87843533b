//! A bank transfer in one transaction, with Semel and without.

use std::sync::Arc;

use anyhow::bail;
use semel_core::{Fingerprint, Outcome, Policy, RecordId, Reply};
use semel_engine::Answer;
use semel_postgres::Options;
use semel_postgres::transaction::{Event, TransactionPool, Tx};
use tokio::sync::Mutex;
use tokio_postgres::{Client, NoTls, Statement};

use super::Bench;
use crate::figures::Line;
use crate::store_load as load;

const ACCOUNTS: i64 = 10_000;

const SCHEMA: &str = "
CREATE TABLE account (id bigint PRIMARY KEY, balance bigint NOT NULL CHECK (balance >= 0));
CREATE TABLE transfer (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key bytea NOT NULL UNIQUE,
                       source bigint NOT NULL, target bigint NOT NULL, amount bigint NOT NULL);
CREATE TABLE entry (transfer bigint NOT NULL, account bigint NOT NULL, amount bigint NOT NULL);
CREATE TABLE own_outbox (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, topic text NOT NULL,
                         payload bytea NOT NULL);
INSERT INTO account SELECT n, 1000000000 FROM generate_series(1, 10000) n";

const LOCK: &str = "SELECT id, balance FROM account WHERE id IN ($1, $2) ORDER BY id FOR UPDATE";
const MOVE: &str =
    "UPDATE account SET balance = balance + CASE id WHEN $1 THEN -$3::bigint ELSE $3 END
                    WHERE id IN ($1, $2)";
const TRANSFER: &str = "WITH made AS (
        INSERT INTO transfer (key, source, target, amount) VALUES ($1, $2, $3, $4) RETURNING id)
    INSERT INTO entry SELECT made.id, e.account, e.amount
    FROM made, (VALUES ($2, -$4::bigint), ($3, $4)) AS e (account, amount)";
const OUTBOX: &str = "INSERT INTO own_outbox (topic, payload) VALUES ($1, $2)";

/// One transfer: payer, payee, key.
#[derive(Clone, Copy)]
struct Order {
    source: i64,
    target: i64,
    key: [u8; 32],
}

/// A connection of a service without Semel.
struct Plain {
    client: Client,
    lock: Statement,
    moving: Statement,
    transfer: Statement,
    outbox: Statement,
}

pub(super) async fn run(bench: &Bench<'_>, clients: usize) -> anyhow::Result<Vec<Line>> {
    if bench.server.psql("SELECT to_regclass('account') IS NULL")?.trim() == "t" {
        bench.server.psql(SCHEMA)?;
    }
    let options = Options::from_url(&bench.server.url())?.pool_max(clients);
    let pool = TransactionPool::open(options).await?;
    let mut plain = Vec::new();
    for _ in 0..clients {
        plain.push(Arc::new(Mutex::new(Plain::connect(&bench.server.url()).await?)));
    }
    let mut lines = Vec::new();
    for with_outbox in [true, false] {
        let what = if with_outbox { "with an outbox row" } else { "without an outbox row" };
        let names = [format!("transfers, {clients} clients, {what}"), format!("no Semel, {what}")];
        let ratio = bench
            .in_turns([&names[0], &names[1]], async |subject| match subject {
                0 => {
                    load::per_second(clients, bench.seconds(), |_| {
                        let pool = pool.clone();
                        move || semel(pool.clone(), Order::random(), with_outbox)
                    })
                    .await
                }
                _ => load::per_second(clients, bench.seconds(), |client| {
                    let plain = plain[client].clone();
                    move || {
                        let plain = plain.clone();
                        async move { plain.lock().await.once(Order::random(), with_outbox).await }
                    }
                })
                .await,
            })
            .await?;
        lines.push(Line {
            what: format!("transfers/s {what}, {clients} clients, against no Semel"),
            value: format!("{ratio:.2}"),
            asked: "at least 0.75".into(),
            reached: ratio >= 0.75,
        });
    }
    Ok(lines)
}

async fn semel(pool: TransactionPool, order: Order, with_outbox: bool) -> anyhow::Result<()> {
    let (id, fingerprint) = (RecordId::from_bytes(order.key), Fingerprint::from_bytes(order.key));
    let answer = pool
        .once(id, fingerprint, &Policy::default(), move |work| {
            Box::pin(async move {
                order.business(work).await?;
                if with_outbox {
                    work.stage(Event::new("transfers", vec![0xab; 100]));
                }
                Ok(Outcome::Completed(Reply::new(vec![0xab; 300])))
            })
        })
        .await?;
    match answer {
        Answer::Executed { .. } => Ok(()),
        other => bail!("{other:?}"),
    }
}

// === impl Order ===

impl Order {
    fn random() -> Self {
        let source = rand::random_range(1..=ACCOUNTS);
        let target = 1 + (source + rand::random_range(0..ACCOUNTS - 1)) % ACCOUNTS;
        Self { source, target, key: load::id_bytes(load::fresh()) }
    }

    async fn business(&self, tx: &Tx) -> Result<(), tokio_postgres::Error> {
        let Self { source, target, key } = self;
        tx.query(LOCK, &[source, target]).await?;
        tx.execute(MOVE, &[source, target, &1_i64]).await?;
        tx.execute(TRANSFER, &[&key.as_slice(), source, target, &1_i64]).await?;
        Ok(())
    }
}

// === impl Plain ===

impl Plain {
    async fn connect(url: &str) -> anyhow::Result<Self> {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(connection);
        Ok(Self {
            lock: client.prepare(LOCK).await?,
            moving: client.prepare(MOVE).await?,
            transfer: client.prepare(TRANSFER).await?,
            outbox: client.prepare(OUTBOX).await?,
            client,
        })
    }

    async fn once(&mut self, order: Order, with_outbox: bool) -> anyhow::Result<()> {
        let Order { source, target, key } = &order;
        let tx = self.client.transaction().await?;
        tx.query(&self.lock, &[source, target]).await?;
        tx.execute(&self.moving, &[source, target, &1_i64]).await?;
        tx.execute(&self.transfer, &[&key.as_slice(), source, target, &1_i64]).await?;
        if with_outbox {
            tx.execute(&self.outbox, &[&"transfers", &[0xab_u8; 100].as_slice()]).await?;
        }
        tx.commit().await?;
        Ok(())
    }
}
