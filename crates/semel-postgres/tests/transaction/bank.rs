//! A bank that works in transactions: its tables, its connections, and its clients' keys.

use std::sync::LazyLock;
use std::time::Duration;

use semel_core::{Attempt, Fingerprint, InFlight, Key, Outcome, Owner, Policy};
use semel_core::{RecordId, Reply, Scope};
use semel_postgres::transaction::{
    Isolation, OnceError, Retry, SameTransaction, TransactionPool, Tx, Work, WorkFuture,
};
use semel_postgres::{Options, PostgresStore, migrate};
use semel_store::Answer;
use tokio_postgres::Client;

use crate::gate::until;
use crate::support::{connect, fresh_url, options, schema_of};

/// A schema of its own, with the bank's tables beside those of Semel.
#[derive(Debug)]
pub(crate) struct Bank {
    /// Its connections are named by the schema, and look there for tables.
    pub(crate) url: String,
    pub(crate) schema: String,
    pub(crate) pool: TransactionPool,
    /// A session that takes no part in the work.
    pub(crate) session: Client,
}

/// For many concurrent transactions, of which the last loses often before it wins, and for servers that take their time
/// to notice that a connection is gone.
pub(crate) const STUBBORN: Retry =
    Retry { tries: 2_000, pause: Duration::from_millis(1), pause_max: Duration::from_millis(20) };

const TABLES: &str = "
    CREATE TABLE entry (amount bigint NOT NULL);
    CREATE TABLE account (name text PRIMARY KEY, balance bigint NOT NULL);
    INSERT INTO account VALUES ('anna', 0), ('bert', 0)";

// === impl Bank ===

impl Bank {
    pub(crate) async fn open() -> Self {
        Self::open_with(Isolation::Default, |options| options).await
    }

    pub(crate) async fn isolated(isolation: Isolation) -> Self {
        Self::open_with(isolation, |options| options).await
    }

    /// A bank with that many connections.
    pub(crate) async fn small(connections: usize) -> Self {
        Self::open_with(Isolation::Default, |options| options.pool_max(connections)).await
    }

    pub(crate) async fn open_with(
        isolation: Isolation,
        change: impl FnOnce(Options) -> Options,
    ) -> Self {
        Self::at(&fresh_url(), isolation, change).await
    }

    /// A bank in a schema that may be there already.
    pub(crate) async fn at(
        url: &str,
        isolation: Isolation,
        change: impl FnOnce(Options) -> Options,
    ) -> Self {
        let schema = schema_of(url).to_owned();
        let settings = format!("-c%20search_path%3D{schema}%20-c%20deadlock_timeout%3D20ms");
        let ours = format!("?application_name={schema}&options={settings}&");
        let url = url.replacen('?', &ours, 1);
        migrate(&options(&url)).await.expect("a schema");
        let session = connect(&url).await;
        session.batch_execute(&format!("SET search_path = {schema};{TABLES}")).await.unwrap();
        let pool = change(options(&url)).open_pool(isolation).await;
        Self { url, schema, pool, session }
    }

    pub(crate) async fn store(&self) -> PostgresStore {
        options(&self.url).open().await.expect("a store")
    }

    /// The mode for transactions of the test's own.
    pub(crate) fn same(&self) -> SameTransaction {
        SameTransaction::in_schema(&self.schema).unwrap()
    }

    /// One more session of the test's own.
    pub(crate) async fn connect(&self) -> Client {
        let session = connect(&self.url).await;
        let settings = format!("SET search_path = {0}; SET application_name = {0}", self.schema);
        session.batch_execute(&settings).await.unwrap();
        session
    }

    /// Does a piece of work once, with the usual request.
    pub(crate) async fn once<W>(
        &self,
        key: &str,
        policy: &Policy,
        work: W,
    ) -> Result<Answer, OnceError>
    where
        W: for<'w> FnMut(&'w mut Work<'_, Tx>) -> WorkFuture<'w> + Send,
    {
        self.pool.once(id(key), body("100"), policy, work).await
    }

    pub(crate) async fn number(&self, sql: &str) -> i64 {
        self.session.query_one(sql, &[]).await.unwrap().get(0)
    }

    pub(crate) async fn count(&self, table: &str) -> i64 {
        self.number(&format!("SELECT count(*) FROM {table}")).await
    }

    /// How many rows the work, its events and its records have.
    pub(crate) async fn counts(&self) -> [i64; 3] {
        [self.count("entry").await, self.count("outbox").await, self.count("record").await]
    }

    /// How many of the bank's connections wait for another transaction with the same key.
    pub(crate) async fn waiting(&self) -> i64 {
        let sql = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = '{}'
             AND wait_event_type = 'Lock' AND wait_event = 'advisory'",
            self.schema
        );
        self.number(&sql).await
    }

    /// Waits until no transaction of the bank is under way.
    pub(crate) async fn quiet(&self) {
        let sql = format!(
            "SELECT count(*) FROM pg_stat_activity
             WHERE application_name = '{}' AND state <> 'idle'",
            self.schema
        );
        until("no transaction is under way", async || self.number(&sql).await == 0).await;
    }
}

trait OpenPool {
    async fn open_pool(self, isolation: Isolation) -> TransactionPool;
}

impl OpenPool for Options {
    async fn open_pool(self, isolation: Isolation) -> TransactionPool {
        TransactionPool::open_with(self, isolation).await.expect("a pool")
    }
}

// What clients ask for.

pub(crate) fn id(key: &str) -> RecordId {
    let scope = Scope::new([("who", "customer-7"), ("what", "POST /deposits")]);
    RecordId::new("bank", &scope, &Key::parse(key).unwrap())
}

pub(crate) fn body(text: &str) -> Fingerprint {
    Fingerprint::new([("body", text)])
}

/// The usual request with a key, by a new owner.
pub(crate) fn attempt(key: &str) -> Attempt {
    Attempt::new(id(key), body("100"), Owner::from_u128(rand::random()))
}

pub(crate) fn conflict() -> &'static Policy {
    static CONFLICT: LazyLock<Policy> = LazyLock::new(Policy::default);
    &CONFLICT
}

pub(crate) fn wait(limit: Duration) -> Policy {
    Policy::builder().in_flight(InFlight::Wait(limit)).build().unwrap()
}

// What the bank does.

pub(crate) fn completed(reply: &str) -> Outcome {
    Outcome::Completed(Reply::new(reply.to_owned()))
}

/// Books one entry.
pub(crate) fn deposit<'w>(work: &'w mut Work<'_, Tx>) -> WorkFuture<'w> {
    Box::pin(async move {
        work.execute("INSERT INTO entry VALUES (100)", &[]).await?;
        Ok(completed("done"))
    })
}

/// Work that must not be done.
pub(crate) fn never<'w>(_: &'w mut Work<'_, Tx>) -> WorkFuture<'w> {
    panic!("executed")
}

pub(crate) fn is_executed(answer: &Answer) -> bool {
    matches!(answer, Answer::Executed { .. })
}

pub(crate) fn is_replayed(answer: &Answer) -> bool {
    matches!(answer, Answer::Replayed { .. })
}

pub(crate) fn is_in_flight(answer: &Answer) -> bool {
    matches!(answer, Answer::InFlight { .. })
}
